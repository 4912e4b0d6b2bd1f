import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer } from "../support/event-server.ts";

/*
 * Slow clients over bare connections to a process with short time-outs. Each one is disconnected after its time-out and
 * not before, and other clients get answers meanwhile.
 */

const LIMITS = {
  HEADERS_TIMEOUT: "2",
  REQUEST_TIMEOUT: "4",
  IDLE_TIMEOUT: "3",
  HEADER_LIMIT_KB: "8",
};
/** The process checks once per second, and the machine may be busy. */
const LATE_MS = 8000;

let database: TestDatabase;
let server: RunningServer;
beforeAll(async () => {
  database = await createTestDatabase();
  server = await startEventServer(database.url, LIMITS);
});
afterAll(async () => {
  server.process.kill("SIGKILL");
  await database.drop();
});

const port = () => Number(new URL(server.url).port);

/** Sends a text, then `drop` ten times per second. Returns the answer and when the other side closed. */
function send(text: string, drop = ""): Promise<{ received: string; tookMs: number }> {
  return new Promise((resolve) => {
    const from = performance.now();
    const socket = connect(port(), "127.0.0.1", () => socket.write(text));
    let received = "";
    const trickle = setInterval(() => drop !== "" && socket.write(drop), 100);
    socket.setEncoding("utf8").on("data", (data: string) => (received += data));
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(trickle);
      resolve({ received, tookMs: performance.now() - from });
    });
  });
}

const HEAD = "POST /api/v1/users/authenticate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";

describe.concurrent("a client is cut that", () => {
  it.each([
    ["connects and says nothing", "", "", 2000],
    ["sends its headers byte by byte", `${HEAD}X-Slow: `, "a", 2000],
    ["sends its body byte by byte", `${HEAD}Content-Length: 5000\r\n\r\n{"`, "a", 4000],
    ["promises a body and sends none", `${HEAD}Content-Length: 5000\r\n\r\n`, "", 4000],
    ["asks once and keeps the connection", "GET /live HTTP/1.1\r\nHost: a\r\n\r\n", "", 3000],
  ])("%s", async (what, text, drop, afterMs) => {
    const cut = send(text, drop);
    const meanwhile = await fetch(`${server.url}/live`);
    expect(meanwhile.status).toBe(200);
    const { received, tookMs } = await cut;
    expect(tookMs).toBeGreaterThan(afterMs - 500);
    expect(tookMs).toBeLessThan(afterMs + LATE_MS);
    expect(received).toMatch(what.startsWith("asks once") ? /^HTTP\/1\.1 200 / : /^(HTTP\/1\.1 408 [^]*)?$/);
  });

  it("sends more headers than the operator takes", async () => {
    const ask = (size: number) =>
      send(`GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Large: ${"x".repeat(size)}\r\n\r\n`);
    expect((await ask(7 * 1024)).received).toMatch(/^HTTP\/1\.1 200 /);
    expect((await ask(9 * 1024)).received).toMatch(/^HTTP\/1\.1 431 /);
  });
});
