import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { StartupProblem } from "../../src/db/postgres/connect.ts";
import { createHttpServer, drainable, listen } from "../../src/entries/platform/http-server.ts";
import { count } from "../support/emitters.ts";

let answer: (request: Request, bindings: object) => Response | Promise<Response>;
let server: ReturnType<typeof createHttpServer>;
let drain: (deadlineMs: number) => Promise<void>;
let port: number;

beforeEach(async () => {
  server = createHttpServer((request, bindings) => answer(request, bindings));
  drain = drainable(server);
  await listen(server, 0, "127.0.0.1", "PORT");
  port = (server.address() as AddressInfo).port;
});
afterEach(() => drain(0));

/** Writes bytes and returns everything received until the connection closes. */
function exchange(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    let received = "";
    socket.setEncoding("utf8").on("data", (data: string) => (received += data));
    socket.on("error", reject).on("close", () => resolve(received));
  });
}

it("the body of a GET reaches the application through its bindings", async () => {
  answer = async (_, bindings) => {
    let body = "";
    for await (const chunk of (bindings as { incoming: AsyncIterable<Uint8Array> }).incoming) {
      body += new TextDecoder().decode(chunk);
    }
    return new Response(`heard ${body}`);
  };
  const answered = await exchange(
    'GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}',
  );
  expect(answered).toContain('heard {"a":1}');
});

it.each([
  { requests: 10, first: 10 },
  { requests: 40, first: 32 },
])(
  "of $requests requests that have arrived, $first are handled before the first is answered",
  async ({ requests, first }) => {
    let handled = 0;
    const handledAtAnswers: number[] = [];
    answer = () => {
      handled += 1;
      return new Response("answered");
    };
    server.on("request", (_, response: ServerResponse) => response.on("finish", () => handledAtAnswers.push(handled)));
    const accepted = count(server, "connection", requests);
    const sockets = Array.from({ length: requests }, () => connect(port, "127.0.0.1"));
    await accepted;
    const answers = Promise.all(sockets.map((socket) => once(socket, "data")));
    for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for (const [data] of await answers) expect(String(data)).toMatch(/^HTTP\/1\.1 200 OK[^]*answered$/);
    expect(handledAtAnswers).toHaveLength(requests);
    expect(handledAtAnswers[0]).toBe(first);
    for (const socket of sockets) socket.destroy();
  },
);

it("a port in use is one sentence that names the setting", async () => {
  const second = createHttpServer(() => new Response());
  const error = await listen(second, port, "127.0.0.1", "EVENTS_PORT").catch((error: unknown) => error);
  expect(error).toBeInstanceOf(StartupProblem);
  expect((error as Error).message).toBe(
    `Port ${port} is already in use: stop what listens there, or set EVENTS_PORT to another port.`,
  );
});

it("draining refuses new connections, finishes what is being answered and closes kept ones", async () => {
  let arrived = () => {};
  const arrival = new Promise<void>((resolve) => (arrived = resolve));
  answer = async () => {
    arrived();
    await new Promise((resolve) => setTimeout(resolve, 200));
    return new Response("finished");
  };
  const inFlight = exchange("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  await arrival;
  const drained = drain(5000);
  await expect(exchange("GET /new HTTP/1.1\r\nHost: a\r\n\r\n")).rejects.toThrow(/ECONNREFUSED/);
  expect(await inFlight).toMatch(/^HTTP\/1\.1 200 OK[^]*connection: close[^]*finished/i);
  await drained;
});

it("draining answers all requests that a client has sent without waiting for the answers before", async () => {
  let arrivals = 0;
  let arrived = () => {};
  const arrival = new Promise<void>((resolve) => (arrived = resolve));
  answer = async (request) => {
    arrivals += 1;
    if (arrivals === 3) arrived();
    await new Promise((resolve) => setTimeout(resolve, 200));
    return new Response(`answered ${new URL(request.url).pathname}`);
  };
  const paths = ["/1", "/2", "/3"];
  const inFlight = exchange(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(""));
  await arrival;
  await drain(5000);
  expect((await inFlight).match(/answered \/\d|connection: close/gi)).toEqual([
    "answered /1",
    "answered /2",
    expect.stringMatching(/^connection: close$/i),
    "answered /3",
  ]);
});

it("draining ends by force what does not end by itself", async () => {
  let arrived = () => {};
  const arrival = new Promise<void>((resolve) => (arrived = resolve));
  answer = () => {
    arrived();
    return new Promise<Response>(() => {});
  };
  const stuck = exchange("GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n").catch(() => "cut");
  await arrival;
  await drain(100);
  await stuck;
});

it("draining does not wait for connections that were opened ahead of a need and never used", async () => {
  const ahead = connect(port, "127.0.0.1");
  const closed = new Promise((resolve) => ahead.once("close", resolve));
  await new Promise((resolve) => ahead.once("connect", resolve));
  // Waits longer than the test may take.
  await drain(3_600_000);
  await closed;
});
