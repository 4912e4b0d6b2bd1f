import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A request that arrived. */
export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
  at: number;
}

/** Somebody who takes webhooks. */
export interface Receiver {
  url: string;
  received: Received[];
  /** What to answer, for each request anew; undefined: nothing at all. */
  answer: (request: Received) => { status: number; headers?: Record<string, string> } | undefined;
  close(): Promise<void>;
}

/** Listens on a port of its own and answers 204. */
export async function openReceiver(): Promise<Receiver> {
  const receiver: Receiver = { url: "", received: [], answer: () => ({ status: 204 }), close: async () => {} };
  const server: Server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (piece: string) => (body += piece));
    request.on("end", () => {
      const one = { headers: request.headers, body, at: Date.now() };
      receiver.received.push(one);
      const answer = receiver.answer(one);
      if (answer !== undefined) response.writeHead(answer.status, answer.headers).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  receiver.close = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  };
  return receiver;
}
