import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TOOLS } from "../../../src/http/mcp/tools.ts";
import { callTool, post } from "../../support/agents.ts";
import { createTestApi, type TestApi } from "../../support/api.ts";
import { consumed, contract, tasker, upload } from "../../support/contracting.ts";

/* Whatever is sent to /mcp: an error of JSON-RPC or of a tool, never a 5xx, and no call but the one that the tool stands for. */

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi({ http: { allowedOrigins: ["https://console.example"], keyCallsPerSecond: 1000 } });
  key = api.callers.all.key;
  await upload(api, key, tasker());
  await contract(api, key, "ada");
});
afterAll(() => api.close());

const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };

describe("a body that is no message", () => {
  test.each([
    ["{", 400, -32700],
    ["[".repeat(100_000), 400, -32700],
    ["null", 400, -32700],
    ["7", 400, -32700],
    ['"tools/list"', 400, -32700],
    ["", 400, -32600],
    ["{}", 400, -32600],
    ["[]", 400, undefined],
    ['{"jsonrpc":"1.0","id":1,"method":"tools/list"}', 400, -32600],
    ['{"jsonrpc":"2.0","id":{},"method":"tools/list"}', 400, -32600],
    ['{"jsonrpc":"2.0","id":1,"method":7}', 400, -32600],
    [JSON.stringify({ ...LIST, method: "x".repeat(3_000_000) }), 413, -32600],
    [JSON.stringify(Array.from({ length: 21 }, () => LIST)), 400, -32600],
  ])("%.60s is a JSON-RPC error with %i", async (body, status, code) => {
    const answer = await post(api, key, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    expect(answer.body).toMatchObject({ jsonrpc: "2.0", error: { message: expect.any(String) } });
    if (code !== undefined) expect(answer.body.error?.code).toBe(code);
  });

  test("another content type is 415, and an Accept without JSON and streams 406", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""]) {
      const answer = await post(api, key, LIST, { "content-type": type });
      expect(answer.status, type).toBe(415);
      expect(answer.body.error?.message).toBe("The Content-Type must be application/json");
    }
    expect((await post(api, key, LIST, { accept: "text/html" })).status).toBe(406);
  });

  test.each([
    ["initialize", undefined, "params"],
    ["initialize", { protocolVersion: "2025-06-18", capabilities: {} }, "params.clientInfo"],
    ["resources/read", undefined, "params"],
    ["resources/read", { uri: 7 }, "params.uri"],
    ["tools/call", undefined, "params"],
    ["tools/call", { name: "listServices", arguments: [] }, "params.arguments"],
    ["tools/call", { name: "listServices", arguments: "x" }, "params.arguments"],
  ])("%s with the params %j names the wrong field", async (method, params, field) => {
    const answer = await post(api, key, { jsonrpc: "2.0", id: 1, method, params });
    expect(answer.body.error).toEqual({ code: -32602, message: `The ${field} field is not valid` });
  });

  test("an unknown method, and one that this server does not have, are errors with the message's id", async () => {
    for (const method of ["nothing/here", "__proto__", "prompts/list", "resources/subscribe", "logging/setLevel"]) {
      const answer = await post(api, key, { jsonrpc: "2.0", id: "a", method });
      expect(answer.body, method).toMatchObject({ id: "a", error: { code: -32601 } });
      expect(answer.status).toBeLessThan(500);
    }
  });
});

describe("a request without a message", () => {
  test.each(["GET", "DELETE", "PUT"])(
    "%s is 405 and names POST, as for every server without sessions",
    async (method) => {
      const answer = await api.app.request("/mcp", {
        method,
        headers: { "x-api-key": key, accept: "text/event-stream" },
      });
      expect(answer.status).toBe(405);
      expect(answer.headers.get("allow")).toBe("POST");
      expect(await answer.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32600 } });
    },
  );

  test.each([
    [undefined, 'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.'],
    [`org_${"0".repeat(64)}`, "Invalid Organization API Key"],
    ["nonsense", 'Invalid API Key format. API Keys must start with "usr_" or "org_"'],
  ])("without a key, or with the key %s, it is 401 in the words of every call", async (wrong, message) => {
    const answer = await post(api, wrong, LIST);
    expect(answer.status).toBe(401);
    expect(answer.body).toEqual({ jsonrpc: "2.0", id: null, error: { code: -32600, message } });
  });

  test("a page of another origin is refused, and one that is allowed is not", async () => {
    expect((await post(api, key, LIST, { origin: "https://evil.example" })).status).toBe(403);
    const allowed = await post(api, key, LIST, { origin: "https://console.example" });
    expect(allowed.status).toBe(200);
    expect(allowed.headers.get("access-control-allow-origin")).toBe("https://console.example");
  });
});

describe("a tool call", () => {
  test.each([
    "nothing",
    "[\n",
    "__proto__",
    "constructor",
    "toString",
    "",
    "createContract",
    "listServicesInOrganization",
  ])("of the tool %s is an error of the protocol", async (name) => {
    const { status, body } = await callTool(api, key, name);
    expect(status).toBe(200);
    expect(body.error).toMatchObject({ code: -32602, message: expect.stringContaining(`Unknown tool: ${name}`) });
  });

  test.each([
    [
      "an unknown argument",
      "listServices",
      { colour: "red" },
      /^Unknown argument: colour\. Arguments: organizationId, /,
    ],
    [
      "a hidden parameter",
      "evaluateFeature",
      { userId: "ada", featureId: "x", revert: true },
      /^Unknown argument: revert/,
    ],
    [
      "a parameter that is set",
      "evaluateFeature",
      { userId: "ada", featureId: "x", dryRun: false },
      /^Unknown argument/,
    ],
    ["a missing part of the path", "showContract", {}, /^The argument userId is required$/],
    ["an empty part", "showContract", { userId: "" }, /^The argument userId must be a text that is neither empty/],
    ["a dot segment", "showContract", { userId: ".." }, /^The argument userId must be a text that is neither empty/],
    ["half a character", "showContract", { userId: "\ud800" }, /^The argument userId must be a text/],
    ["a number for a text", "showContract", { userId: 7 }, /^The argument userId must be a text, not number$/],
    [
      "a list for a number",
      "listContracts",
      { limit: [1] },
      /^The argument limit must be a text, a number or a boolean$/,
    ],
    [
      "an object for a text",
      "listContracts",
      { q: { $ne: 1 } },
      /^The argument q must be a text, a number or a boolean$/,
    ],
    [
      "a text as body",
      "predictImpact",
      { serviceName: "tasker", body: "archive" },
      /^The argument body must be an obj/,
    ],
    ["a list as body", "evaluateFeature", { userId: "ada", featureId: "tasker-board", body: [] }, /^The argument body/],
    [
      "no list of drafts",
      "predictImpact",
      { serviceName: "tasker", drafts: "a" },
      /^The argument drafts must be a list/,
    ],
    [
      "drafts that are no texts",
      "predictImpact",
      { serviceName: "tasker", drafts: [1] },
      /^The argument drafts must be a/,
    ],
    ["a value that the route refuses", "listContracts", { near: 7 }, /^INVALID DATA: near must be a number above 0/],
    [
      "a body that the route refuses",
      "predictImpact",
      { serviceName: "tasker", body: { action: "x" } },
      /^The action f/,
    ],
    [
      "the name of another call",
      "evaluateFeature",
      { userId: "ada", featureId: "pricing-token" },
      /^No such featureId$/,
    ],
    [
      "an organization in disguise",
      "listServices",
      { organizationId: "../users" },
      /^This route requires a user API key/,
    ],
  ] as const)("with %s is an error of the tool that names it", async (_, name, given, sentence) => {
    const { status, body } = await callTool(api, key, name, given);
    expect(status).toBe(200);
    expect(body.result?.isError, JSON.stringify(body)).toBe(true);
    expect(body.result?.content[0]?.text).toMatch(sentence);
  });

  test("with names of the prototype is answered as for any other name, and changes no object", async () => {
    const answerTo = (name: string, given: string) =>
      post(api, key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${given}}}`);
    for (const name of TOOLS.keys()) {
      for (const given of ['{"constructor":1}', '{"hasOwnProperty":"x"}']) {
        expect((await answerTo(name, given)).body.result?.isError, `${name} ${given}`).toBe(true);
      }
      // The SDK drops this name.
      const { body } = await answerTo(name, '{"__proto__":{"limit":"1","userId":"ada"}}');
      expect(body.result?.content, name).toEqual((await answerTo(name, "{}")).body.result?.content);
    }
    expect(Object.hasOwn(Object.prototype, "limit")).toBe(false);
  });

  test("with arguments that are no object is an error of the protocol", async () => {
    for (const given of [7, "x", [], null, true]) {
      const { status, body } = await callTool(api, key, "listServices", given);
      expect(status).toBeLessThan(500);
      expect(body.error, JSON.stringify(given)).toBeDefined();
    }
  });

  test("with huge values is refused by the bounds of every call", async () => {
    const long = "x".repeat(1_000_000);
    for (const [name, given] of [
      ["showContract", { userId: long }],
      ["listContracts", { q: long }],
      ["predictImpact", { serviceName: "tasker", body: { action: "archive", pricingVersion: long } }],
      ["evaluateFeature", { userId: "ada", featureId: "tasker-board", body: { [long]: 1 } }],
    ] as const) {
      const { status, body } = await callTool(api, key, name, given);
      expect(status).toBe(200);
      expect(JSON.stringify(body).length, name).toBeLessThan(2_100_000);
    }
    const many = Object.fromEntries(Array.from({ length: 25_000 }, (_, i) => [`a${i}`, i]));
    expect((await callTool(api, key, "listContracts", many)).status).toBe(413);
  });

  test("of a reading tool consumes nothing, whatever is asked for", async () => {
    const before = await consumed(api, key, "ada");
    const given = { userId: "ada", featureId: "tasker-board", body: { "tasker-maxTasks": 1 }, strict: true };
    for (const extra of [{}, { hold: "PT1H" }, { dryRun: "false" }, { "dryRun ": "false" }, { revert: "true" }]) {
      await callTool(api, key, "evaluateFeature", { ...given, ...extra });
    }
    expect(await consumed(api, key, "ada")).toBe(before);
    expect(before).toBe(0);
  });
});

test("the limit of calls per key counts each message once, and a batch by its messages", async () => {
  const limited = await createTestApi({ http: { keyCallsPerSecond: 10 } });
  const own = limited.callers.management.key;
  let second = 0;
  const nextSecond = () => limited.setNow(new Date(Date.UTC(2025, 5, 15, 11, 0, (second += 2))));
  const tenTimes = async (work: () => Promise<unknown>) => {
    nextSecond();
    for (let i = 0; i < 10; i += 1) await work();
  };
  const isSpent = async () => (await post(limited, own, LIST)).status === 429;
  const listServices = () => callTool(limited, own, "listServices");

  await tenTimes(async () => expect((await listServices()).body.result?.isError).toBeUndefined());
  expect((await listServices()).body.result).toEqual({
    content: [
      { type: "text", text: "Too many requests with this API key. Please try again later" },
      { type: "text", text: "Try again in 1 seconds" },
    ],
    isError: true,
  });
  expect(await isSpent()).toBe(true);

  await tenTimes(async () => expect((await post(limited, own, LIST)).status).toBe(200));
  expect(await isSpent()).toBe(true);

  await tenTimes(() => callTool(limited, own, "nothing"));
  expect(await isSpent()).toBe(true);

  await tenTimes(() => callTool(limited, own, "listServices", { colour: "red" }));
  expect(await isSpent()).toBe(true);

  nextSecond();
  const message = { jsonrpc: "2.0", method: "tools/call", params: { name: "listServices", arguments: {} } };
  const batch = Array.from({ length: 12 }, (_, id) => ({ ...message, id }));
  const { body } = await post(limited, own, batch);
  const answers = body as unknown as { result: { isError?: boolean } }[];
  expect(answers.filter(({ result }) => result.isError === true)).toHaveLength(2);
  await limited.close();
});

test("analytics count a tool call once", async () => {
  const before = await counted();
  await callTool(api, key, "listServices");
  await post(api, key, LIST);
  expect((await counted()) - before).toBe(2);

  /** Counting is itself a call. */
  async function counted(): Promise<number> {
    await api.resources.callCounter.flush();
    const { body } = await api.call<{ data: number[] }>("GET", "/analytics/api-calls", { key });
    return body.data.reduce((sum, each) => sum + each, 0);
  }
});
