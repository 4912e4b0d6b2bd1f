import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { Faregate } from "../../src/client/client.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { meterTools, type ToolMeterOptions } from "../../src/mcp/mcp.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, tasker, upload } from "../support/contracting.ts";
import { type InProcess, inProcess, ORIGIN } from "../support/in-process.ts";

/* The meter of MCP tools, between a server and a client of the official SDK. */

const LIMIT = "tasker-maxTasks";
let api: TestApi;
let key: string;
let client: Faregate;
let line: InProcess;
/** End of the last hold that was extended. */
let extendedTo = 0;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker({ maxTasks: 5 }));
  line = inProcess(api);
  line.onAnswer = async (path, answer) => {
    if (path.includes("extend=") && answer.ok) extendedTo = Date.parse((await answer.clone().json()).until);
    return answer;
  };
  client = new Faregate({ url: ORIGIN, apiKey: key, fetch: line.fetch });
});
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

const TOOLS: ToolMeterOptions["tools"] = {
  plan: {
    featureId: "tasker-board",
    amounts: { [LIMIT]: 3 },
    cost: ({ structuredContent }) => ({ [LIMIT]: taken(structuredContent) }),
  },
  fail: { featureId: "tasker-board", amounts: { [LIMIT]: 1 } },
  dark: { featureId: "tasker-darkMode" },
  board: { featureId: "tasker-board" },
  typo: { featureId: "tasker-bord", amounts: { [LIMIT]: 1 } },
};
const taken = (content: unknown): number => (content as { tasks: number }).tasks;

const noWork = async () => {};

/** A server with metered tools and a free one, and a client of it. */
async function connected(
  userId: string,
  options: Pick<ToolMeterOptions, "spender" | "duration" | "onError"> = {},
  work = noWork,
) {
  const server = new McpServer({ name: "tasks", version: "1.0.0" });
  const metered = meterTools(server, client, { userId, ...options, tools: TOOLS });
  metered.registerTool(
    "plan",
    { description: "Plans tasks", inputSchema: z.object({ tasks: z.number() }) },
    async ({ tasks }) => {
      await work();
      return { content: [], structuredContent: { tasks } };
    },
  );
  metered.registerTool("fail", { description: "Fails" }, async () => {
    throw new Error("No luck");
  });
  metered.registerTool("dark", { description: "Darkens" }, async () => ({ content: [] }));
  metered.registerTool("board", { description: "Shows the board" }, async () => ({ content: [] }));
  const typo = metered.registerTool("typo", { description: "Has a wrong id" }, async () => ({ content: [] }));
  metered.registerTool("free", { description: "Costs nothing" }, async () => ({ content: [] }));
  await metered.refresh();
  const [near, far] = InMemoryTransport.createLinkedPair();
  const agent = new Client({ name: "agent", version: "1.0.0" });
  await Promise.all([server.connect(far), agent.connect(near)]);
  const names = async () => (await agent.listTools()).tools.map(({ name }) => name).toSorted();
  const call = (name: string, tasks?: number) =>
    agent.callTool({ name, ...(tasks === undefined ? {} : { arguments: { tasks } }) });
  return { names, call, typo, refresh: metered.refresh, close: () => agent.close() };
}

test("tools are hidden while their feature is off", async () => {
  await contract(api, key, "basic", { subscriptionPlans: { tasker: "BASIC" } });
  await contract(api, key, "pro");
  const [basic, pro] = [await connected("basic"), await connected("pro")];
  expect(await basic.names()).toEqual(["board", "fail", "free", "plan"]);
  expect(await pro.names()).toEqual(["board", "dark", "fail", "free", "plan"]);
  await api.call("PUT", "/contracts/basic", {
    key,
    body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "PRO" }, subscriptionAddOns: {} },
  });
  await basic.refresh();
  expect(await basic.names()).toEqual(await pro.names());
  await Promise.all([basic.close(), pro.close()]);
});

test("a call is held before, and counts what it took; one that fails counts nothing", async () => {
  await contract(api, key, "ada");
  const { call, close } = await connected("ada");
  expect(await call("plan", 2)).toMatchObject({ structuredContent: { tasks: 2 } });
  expect(await consumed(api, key, "ada")).toBe(2);
  expect(await call("fail")).toMatchObject({ isError: true });
  expect(await consumed(api, key, "ada")).toBe(2);
  expect(await client.contracts.holds("ada")).toMatchObject({ data: [] });
  await close();
});

test("a denied call says what is left, until when, and what would help", async () => {
  await contract(api, key, "bob");
  const { call, close } = await connected("bob");
  await call("plan", 3);
  const denied = await call("plan", 3);
  expect(denied).toMatchObject({
    isError: true,
    structuredContent: {
      error: "LIMIT_REACHED",
      remaining: { [LIMIT]: 2 },
      resetAt: { [LIMIT]: expect.stringMatching(/Z$/) },
      // Room for all three tasks of the call: for one more there is some.
      unlock: { featureId: "tasker-board", reason: null, target: { plan: "PRO", addOns: { extraTasks: 2 } } },
    },
  });
  const { content, structuredContent } = denied as { content: { text: string }[]; structuredContent: unknown };
  expect(JSON.parse(content[0]?.text ?? "")).toEqual(structuredContent);
  expect(await consumed(api, key, "bob")).toBe(3);
  await close();
});

test("a call that took more than is left counts what it held", async () => {
  await contract(api, key, "eve");
  const { call, close } = await connected("eve");
  expect(await call("plan", 6)).toMatchObject({ structuredContent: { tasks: 6 } });
  expect(await consumed(api, key, "eve")).toBe(3);
  expect(await client.contracts.holds("eve")).toMatchObject({ data: [] });
  await close();
});

test("a tool that counts nothing obeys the budgets of the one who spends", async () => {
  await contract(api, key, "dan");
  const { names, call, refresh, close } = await connected("dan", { spender: "ann/agent" });
  expect(await call("board")).not.toHaveProperty("isError", true);
  await client.contracts.budgets.put("dan", "none", { limit: LIMIT, spender: "ann", amount: 0, window: "life" });
  expect(await call("board")).toMatchObject({
    isError: true,
    structuredContent: { error: "BUDGET_REACHED", budget: { name: "none", spender: "ann" } },
  });
  await refresh();
  expect(await names()).toEqual(["dark", "free"]);
  await close();
});

test("a feature that does not exist is an error, not a limit", async () => {
  await contract(api, key, "ian");
  const { call, typo, close } = await connected("ian");
  typo.enable();
  expect(await call("typo")).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining("tasker-bord") }],
  });
  expect(await call("typo")).not.toHaveProperty("structuredContent");
  await close();
});

let clock = Date.parse("2025-06-15T10:00:00.000Z");
const advance = (milliseconds: number) => api.setNow(new Date((clock += milliseconds)));

test("a call that takes longer than its hold keeps it open, and counts what it took", async () => {
  await contract(api, key, "fay");
  const { call, close } = await connected("fay", { duration: "PT1S" }, async () => {
    for (let passed = 0; passed < 3; passed += 1) {
      await expect.poll(() => extendedTo, { timeout: 10_000 }).toBe(clock + 1_000);
      advance(900);
    }
  });
  expect(await call("plan", 2)).toMatchObject({ structuredContent: { tasks: 2 } });
  expect(await client.contracts.holds("fay", { state: "all" })).toMatchObject({ data: [{ state: "settled" }] });
  expect(await consumed(api, key, "fay")).toBe(2);
  await close();
});

test("a call whose hold has ended is counted all the same", async () => {
  await contract(api, key, "gus");
  const { call, close } = await connected("gus", {}, async () => advance(600_000));
  expect(await call("plan", 2)).toMatchObject({ structuredContent: { tasks: 2 } });
  expect(await client.contracts.holds("gus", { state: "all" })).toMatchObject({ data: [{ state: "expired" }] });
  expect(await consumed(api, key, "gus")).toBe(2);
  await close();
});

test("a call that ends while the service is away answers with its result", async () => {
  await contract(api, key, "hal");
  const failures: unknown[] = [];
  const onError = (error: unknown) => failures.push(error);
  const { call, close } = await connected("hal", { onError }, async () => line.cut());
  expect(await call("plan", 2)).toMatchObject({ structuredContent: { tasks: 2 } });
  line.restore();
  expect(failures).toMatchObject([{ message: expect.stringContaining("could not be reached") }]);
  expect(await client.contracts.holds("hal")).toMatchObject({ data: [{ state: "open" }] });
  await close();
});

test("a call that can no longer be counted answers with its result, and says so", async () => {
  await contract(api, key, "ivy");
  const failures: unknown[] = [];
  const onError = (error: unknown) => failures.push(error);
  const { call, close } = await connected("ivy", { onError }, async () => {
    advance(600_000);
    await client.usage.record([{ userId: "ivy", featureId: "tasker-board", amounts: { [LIMIT]: 5 } }]);
  });
  expect(await call("plan", 2)).toMatchObject({ structuredContent: { tasks: 2 } });
  expect(failures).toMatchObject([{ message: "The usage was not counted: LIMIT_REACHED" }]);
  expect(await consumed(api, key, "ivy")).toBe(5);
  await close();
});
