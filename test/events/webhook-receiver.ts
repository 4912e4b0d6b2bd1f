import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A received request. */
export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
  at: number;
}

/** An HTTP server that receives webhooks. */
export interface Receiver {
  url: string;
  received: Received[];
  /** Status per request. Undefined: never answers. */
  answer: (request: Received) => { status: number; headers?: Record<string, string> } | undefined;
  close(): Promise<void>;
}

/** Listens on a free port and answers 204. */
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
