import { createServer, type AddressInfo, connect, type Server, type Socket } from "node:net";

/** A TCP proxy to a server. Cutting it simulates an outage while the server keeps running. */
export interface Line {
  /** The server's URL through the line, with the same path. */
  url: string;
  /** Closes every connection and accepts no new one. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  close(): Promise<void>;
}

export async function layLine(serverUrl: string): Promise<Line> {
  const target = new URL(serverUrl);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  };
  let server: Server | undefined;
  let port = 0;
  const mend = async () => {
    server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      keep(near);
      keep(far);
      near.on("close", () => far.destroy());
      far.on("close", () => near.destroy());
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((done) => server?.listen(port, "127.0.0.1", done));
    port = (server.address() as AddressInfo).port;
  };
  const cut = async () => {
    const closed = new Promise<void>((done) => (server === undefined ? done() : server.close(() => done())));
    server = undefined;
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await mend();
  return { url: `http://127.0.0.1:${port}${target.pathname.replace(/\/$/, "")}`, cut, mend, close: cut };
}
