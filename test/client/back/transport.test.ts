import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Faregate, type FaregateOptions } from "../../../src/client/client.ts";

/* Timeouts, retries and errors of the back-end client, against a real HTTP server. */

type Answer = (request: IncomingMessage, response: ServerResponse) => void;
const RESULT = { eval: true, limit: null, used: null, error: null };

let server: Server;
let origin: string;
/** Number of the test, which its requests name: on a busy machine one that was given up arrives during the next test. */
let number = 0;
/** Answers in turn; the last one for every further request. */
let answers: Answer[];
/** When each request came, in milliseconds. */
let asked: number[];
let hungUp: number;

const status =
  (code: number, headers: Record<string, string> = {}, body: unknown = { error: "Not now" }): Answer =>
  (_request, response) =>
    response.writeHead(code, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
const ok = status(200, {}, RESULT);
const silence: Answer = (request) => {
  const asking = number;
  request.socket.once("close", () => {
    if (asking === number) hungUp += 1;
  });
};
const hangUp: Answer = (request) => request.socket.destroy();

beforeAll(async () => {
  server = createServer((request, response) => {
    request.resume();
    if (request.url?.startsWith(`/${number}/`) !== true) return void request.socket.destroy();
    asked.push(performance.now());
    return (answers.length > 1 ? answers.shift() : answers[0])?.(request, response);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  origin = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  number += 1;
  answers = [ok];
  asked = [];
  hungUp = 0;
});

const client = (options: Partial<FaregateOptions> = {}) =>
  new Faregate({ url: `${origin}/${number}/`, apiKey: "org_secret", ...options });
const ask = (faregate = client(), options = {}) => faregate.features.evaluate("ada", "tasker-board", options);
const CONSUMPTION = { consumption: { "tasker-maxTasks": 1 } };
const CONTRACT = {
  userContact: { userId: "ada", username: "ada" },
  contractedServices: {},
  subscriptionPlans: {},
  subscriptionAddOns: {},
};

describe("what is tried again", () => {
  test.each([
    { what: "a server that is broken", answer: status(500) },
    { what: "a proxy without a server", answer: status(502, {}, "<html>") },
    { what: "a server that is starting", answer: status(503) },
    { what: "too many requests", answer: status(429) },
    { what: "N1: a connection that breaks", answer: hangUp },
  ])("$what: asking, and consumption with its key", async ({ answer }) => {
    for (const options of [{}, CONSUMPTION]) {
      answers = [answer, answer, ok];
      asked = [];
      expect(await ask(client(), options)).toMatchObject({ eval: true, stale: false });
      expect(asked).toHaveLength(3);
    }
  });

  test.each([400, 401, 403, 404, 409, 413, 422])("status %i is an answer and not tried again", async (code) => {
    answers = [status(code)];
    await expect(ask()).rejects.toMatchObject({ code: "HTTP", status: code, message: "Not now" });
    expect(asked).toHaveLength(1);
  });

  test("a call that could do its work twice is sent once, unless it was refused before any work", async () => {
    for (const answer of [status(500), status(503, { "retry-after": "0" }), hangUp]) {
      answers = [answer];
      asked = [];
      await expect(client().contracts.create(CONTRACT)).rejects.toMatchObject({ name: "ServiceRequestError" });
      expect(asked).toHaveLength(1);
    }
    answers = [status(429, { "retry-after": "0" }), status(201, {}, CONTRACT)];
    asked = [];
    expect(await client().contracts.create(CONTRACT)).toEqual(CONTRACT);
    expect(asked).toHaveLength(2);
  });

  test("not more often than retries says, and the last failure is told", async () => {
    answers = [status(500), status(503), status(502, {}, { error: "the last" })];
    await expect(ask(client({ retries: 2 }))).rejects.toMatchObject({ status: 502, message: "the last" });
    expect(asked).toHaveLength(3);
    asked = [];
    await expect(ask(client({ retries: 0 }))).rejects.toThrow("the last");
    expect(asked).toHaveLength(1);
    // N1: nor does a call that never gets an answer fail as something else than that.
    answers = [hangUp];
    await expect(ask(client({ retries: 1 }))).rejects.toMatchObject({ name: "ServiceRequestError", code: "NETWORK" });
  });

  test("waits grow exponentially, with jitter over the whole wait", async () => {
    answers = [status(500)];
    const callers = Array.from({ length: 12 }, () => ask().catch((error: unknown) => error));
    await Promise.all(callers);
    expect(asked).toHaveLength(48);
    const first = asked[0] ?? 0;
    // Three waits of at most 100, 200 and 400 ms: spread, and not in step.
    expect((asked.at(-1) ?? 0) - first).toBeGreaterThan(150);
    const later = asked.slice(12).sort((a, b) => a - b);
    expect(new Set(later.map((at) => Math.round((at - first) / 20))).size).toBeGreaterThan(6);
  });
});

describe("Retry-After", () => {
  test("in seconds is waited for", async () => {
    answers = [status(503, { "retry-after": "1" }), ok];
    await ask();
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThanOrEqual(990);
  });

  test("as a date is waited for", async () => {
    answers = [status(429, { "retry-after": new Date(Date.now() + 4000).toUTCString() }), ok];
    await ask();
    // Dates have whole seconds.
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThan(900);
  });

  test("beyond the deadline is not waited for: the call fails at once", async () => {
    answers = [status(503, { "retry-after": "3600" })];
    await expect(ask()).rejects.toMatchObject({ status: 503 });
    expect(asked).toHaveLength(1);
  });
});

describe("time", () => {
  test("an attempt that takes too long is given up and tried again", async () => {
    answers = [silence, ok];
    expect(await ask(client({ timeoutMs: 1000 }))).toMatchObject({ eval: true });
    // On a busy machine the second one may take too long, too.
    expect(asked.length).toBeGreaterThanOrEqual(2);
    await expect.poll(() => hungUp).toBeGreaterThanOrEqual(1);
  });

  test("the deadline bounds all attempts together, and a call may have its own", async () => {
    answers = [silence];
    for (const run of [
      () => ask(client({ timeoutMs: 120, deadlineMs: 300, retries: 5000 })),
      () => ask(client({ retries: 5000 }), { timeoutMs: 120, deadlineMs: 300 }),
    ]) {
      // Without a deadline, 5,000 attempts would outlast the test.
      await expect(run()).rejects.toMatchObject({ code: "TIMEOUT", status: undefined });
    }
  });

  test("a signal ends a call in flight, between two attempts, and before it began", async () => {
    const controllers = [new AbortController(), new AbortController(), new AbortController()];
    const [inFlight, between, before] = controllers.map(({ signal }) => signal);
    answers = [
      (...received) => {
        silence(...received);
        controllers[0]?.abort();
      },
    ];
    await expect(ask(client(), { signal: inFlight })).rejects.toMatchObject({ code: "ABORTED" });
    await expect.poll(() => hungUp).toBe(1);

    answers = [status(503, { "retry-after": "5" }), ok];
    asked = [];
    setTimeout(() => controllers[1]?.abort(), 50);
    await expect(ask(client(), { signal: between, ...CONSUMPTION })).rejects.toMatchObject({ code: "ABORTED" });

    answers = [ok];
    asked = [];
    controllers[2]?.abort();
    await expect(ask(client(), { signal: before })).rejects.toMatchObject({ code: "ABORTED" });
    expect(asked).toEqual([]);
  });

  test("an aborted call is no outage: nothing is made up for it", async () => {
    answers = [silence];
    const signal = AbortSignal.timeout(50);
    await expect(ask(client({ whenUnreachable: "open" }), { signal })).rejects.toMatchObject({ code: "ABORTED" });
  });
});

test("one question that breaks the service, and one caller in haste, are no outage for the others", async () => {
  const faregate = client({ whenUnreachable: "open", retries: 0 });
  for (const [broken, options] of [
    [status(500), {}],
    [silence, { timeoutMs: 1000 }],
  ] as const) {
    answers = [broken, broken, ok];
    expect(await ask(faregate, options)).toMatchObject({ source: "fallback", eval: true });
    expect(await ask(faregate, options)).toMatchObject({ source: "fallback" });
    expect(await ask(faregate)).toMatchObject({ source: "service", stale: false });
  }
});

test("in an outage one caller a second asks, and the first answer ends it", async () => {
  const faregate = client({ whenUnreachable: "closed", retries: 0 });
  answers = [hangUp];
  const began = performance.now();
  for (let n = 0; n < 20; n += 1) {
    expect(await ask(faregate)).toMatchObject({ source: "fallback", eval: false, stale: true });
  }
  const before = asked.length;
  expect(before).toBeGreaterThanOrEqual(3);
  expect(before).toBeLessThanOrEqual(3 + (performance.now() - began) / 1000);
  answers = [ok];
  await expect.poll(() => ask(faregate)).toMatchObject({ source: "service", eval: true });
  expect(asked).toHaveLength(before + 1);
  expect(await ask(faregate)).toMatchObject({ source: "service" });
});

describe("answers that are none", () => {
  test.each([
    ["a proxy's page", "<html>Welcome</html>"],
    ["another shape", { pricingToken: "a.b.c" }],
    ["nothing", null],
  ])("%s with status 200 is BAD_RESPONSE, not tried again, and never an answer to a feature", async (_what, body) => {
    answers = [status(200, {}, body)];
    const bad = { code: "BAD_RESPONSE", status: 200, body };
    await expect(ask()).rejects.toMatchObject(bad);
    await expect(client().features.evaluateAll("ada")).rejects.toMatchObject(body === null ? bad : { code: bad.code });
    await expect(client().contracts.get("ada")).rejects.toMatchObject(bad);
    await expect(client().contracts.list()).rejects.toMatchObject(bad);
    await expect(client().services.get("tasker")).rejects.toMatchObject(bad);
    expect(asked).toHaveLength(5);
  });
});

test("a client with an unusable option is refused when it is made, with the name of the field", () => {
  expect(() => client({ url: "localhost:3000" })).toThrow("config.url");
  expect(() => client({ apiKey: " " })).toThrow("config.apiKey");
  for (const name of ["timeoutMs", "deadlineMs", "retries"]) {
    for (const value of [NaN, -1]) {
      expect(() => client({ [name]: value })).toThrow(`config.${name} must be a number of at least 0`);
    }
    expect(() => client({ [name]: Infinity })).not.toThrow();
  }
});
