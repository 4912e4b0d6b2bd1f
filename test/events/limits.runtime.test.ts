import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer } from "../support/event-server.ts";
import { openRaw, type RawClient } from "./raw-client.ts";
import { HANDSHAKE } from "./in-process.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

let server: RunningServer | undefined;
afterEach(async () => {
  await server?.stop();
});

it.each(["Node", "Bun"] as const)(
  "an address has so many sockets and unknown keys on %s, and room again when one closes",
  async (runtime) => {
    const limits = { SOCKETS_PER_ADDRESS: "3", UNKNOWN_KEYS_PER_MINUTE: "2", TRUSTED_PROXIES: "0" };
    server = await startEventServer(database.url, limits, runtime);
    const address = server.url.replace("http", "ws") + HANDSHAKE;
    const clients: RawClient[] = [];
    for (let i = 0; i < 3; i += 1) clients.push(await openRaw(address));
    for (const client of clients) await client.frame(0);
    await expect(openRaw(address)).rejects.toThrow(/Unexpected server response: 40[03]/);
    expect((await fetch(`${server.url}/live`)).status).toBe(200);
    clients[0]?.close();
    await clients[0]?.closed;
    let again: RawClient | undefined;
    for (let attempt = 0; again === undefined && attempt < 50; attempt += 1) {
      again = await openRaw(address).catch(() => undefined);
      if (again === undefined) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(again).toBeDefined();

    const client = clients[1];
    if (client === undefined) throw new Error("no client");
    const refusal = (sentence: string) => `44/pricings,{"message":"${sentence}"}`;
    const tooMany = refusal("Too many unknown API keys. Please try again later");
    const answers: string[] = [];
    // A new minute may begin in between, and with it a new count.
    while (answers.length < 5 && answers.at(-1) !== tooMany) {
      client.send('40/pricings,{"organizationKey":"org_unknown"}');
      answers.push(await client.frame(1 + answers.length));
    }
    expect(answers.pop()).toBe(tooMany);
    expect(answers.length).toBeGreaterThanOrEqual(2);
    expect(new Set(answers)).toEqual(new Set([refusal("Invalid Organization API Key")]));
    for (const one of [...clients, again]) one?.close();
  },
);

it.each(["Node", "Bun"] as const)(
  "how long a message from a client may be is for the operator to say on %s",
  async (runtime) => {
    server = await startEventServer(database.url, { SOCKET_MESSAGE_KB: "2" }, runtime);
    const client = await openRaw(server.url.replace("http", "ws") + HANDSHAKE);
    await client.frame(0);
    client.send("40/pricings,");
    await client.frame(1);
    client.send(`42/pricings,["message","${"x".repeat(1900)}"]`);
    client.send("40/elsewhere,");
    expect(await client.frame(2)).toContain("44/elsewhere");
    client.send(`42/pricings,["message","${"x".repeat(2100)}"]`);
    expect(await client.closed).toBeGreaterThan(1000);
  },
);

it("on Bun a connection over which nothing goes is cut, at the earliest after what a stream's heartbeat takes", async () => {
  server = await startEventServer(database.url, { IDLE_TIMEOUT: "1" }, "Bun");
  const { port } = new URL(server.url);
  const from = performance.now();
  const received = await new Promise<string>((resolve, reject) => {
    let text = "";
    const socket = connect(Number(port), "127.0.0.1", () => socket.write("GET /live HTTP/1.1\r\nHost: a\r\n\r\n"));
    socket.setEncoding("utf8").on("data", (data: string) => (text += data));
    socket.on("error", reject).on("close", () => resolve(text));
  });
  expect(received).toMatch(/^HTTP\/1\.1 200 /);
  expect(performance.now() - from).toBeGreaterThan(15_000);
});
