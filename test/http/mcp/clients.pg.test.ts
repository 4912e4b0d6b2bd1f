import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AgentClient, CLIENTS, onPort, type ToolAnswer } from "../../support/agents.ts";
import { createTestApi, type TestApi } from "../../support/api.ts";
import { consumed, contract, tasker, upload } from "../../support/contracting.ts";

/* Agents as they are: the clients of the official SDKs, over HTTP. */

let api: TestApi;
let server: Awaited<ReturnType<typeof onPort>>;

beforeAll(async () => {
  api = await createTestApi();
  const { key } = api.callers.all;
  await upload(api, key, tasker(), tasker({ version: "1.1.0", createdAt: "2025-02-01", maxTasks: 30 }));
  await contract(api, key, "ada");
  await api.call("PUT", "/contracts/ada/usageLevels", { key, body: { tasker: { maxTasks: 18 } } });
  server = await onPort(api);
});
afterAll(async () => {
  await server.close();
  await api.close();
});

describe.each(Object.keys(CLIENTS))("a client of %s", (name) => {
  let client: AgentClient;
  const call = async (tool: string, given: Record<string, unknown> = {}) => {
    const answer = (await client.callTool({ name: tool, arguments: given })) as ToolAnswer;
    const [first, notes] = answer.content.map(({ text }) => text);
    return { isError: answer.isError === true, text: first ?? "", notes: notes ?? "" };
  };
  const json = async (tool: string, given?: Record<string, unknown>) => {
    const { isError, text } = await call(tool, given);
    expect(isError, text).toBe(false);
    return JSON.parse(text);
  };

  beforeAll(async () => {
    const connect = CLIENTS[name];
    if (connect === undefined) throw new Error(name);
    client = await connect(server.url, { "x-api-key": api.callers.management.key });
  });
  afterAll(() => client.close());

  test("lists the tools with a description and a schema", async () => {
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).toEqual(
      expect.arrayContaining(["listServices", "evaluateFeature", "unlockFeature", "predictImpact"]),
    );
    for (const { description, inputSchema } of tools) {
      expect(description).toMatch(/^[A-Z].+\.$/s);
      expect(inputSchema).toMatchObject({ type: "object", additionalProperties: false });
    }
  });

  test("explains why a user may use a feature, and counts nothing", async () => {
    const before = await consumed(api, api.callers.all.key, "ada");
    const answer = await json("evaluateFeature", {
      userId: "ada",
      featureId: "tasker-board",
      body: { "tasker-maxTasks": 5 },
      strict: true,
    });
    expect(answer).toMatchObject({ eval: false, reason: "LIMIT_REACHED", remaining: { "tasker-maxTasks": 2 } });
    expect(await consumed(api, api.callers.all.key, "ada")).toBe(before);
  });

  test("reads what is asked about services, contracts and changes", async () => {
    expect(await json("listServices")).toMatchObject([{ name: "Tasker" }]);
    expect(await json("showPricing", { serviceName: "tasker", pricingVersion: "1.0.0" })).toMatchObject({
      version: "1.0.0",
    });
    expect(await json("listVersions", { serviceName: "tasker" })).toHaveLength(2);
    expect((await call("showSource", { serviceName: "tasker", pricingVersion: "1.0.0" })).text).toBe(tasker());
    expect(await json("evaluateFeatures", { userId: "ada" })).toMatchObject({ "tasker-board": true });
    expect(await json("unlockFeature", { userId: "ada", featureId: "tasker-board" })).toMatchObject({
      reason: "ALREADY_ON",
    });
    expect(await json("listContracts", { near: 0.9 })).toMatchObject([{ userContact: { userId: "ada" } }]);
    expect(await json("listContracts", { near: 0.95 })).toEqual([]);
    expect(await json("showContract", { userId: "ada", at: "2025-06-15T10:00:00Z" })).toHaveProperty("asOf");
    expect(await json("getUsage")).toMatchObject({ by: "day" });
    expect(await json("getContractUsage", { userId: "ada", by: "movement" })).toMatchObject({ by: "movement" });
    expect(await json("listScheduled")).toEqual([]);
    expect(await json("compareVersions", { serviceName: "tasker", from: "1.0.0", to: "1.1.0" })).toMatchObject({
      class: "widening",
    });
    const change = { action: "novation", pricingVersion: "1.1.0" };
    expect(await json("predictImpact", { serviceName: "tasker", body: change })).toMatchObject({
      counts: { contracts: 1, gaining: 1 },
    });
    const drafts = [tasker({ version: "2.0.0", createdAt: "2025-03-01", maxTasks: 1 })];
    const toDraft = { serviceName: "Tasker", body: { ...change, pricingVersion: "2.0.0" }, drafts };
    expect(await json("predictImpact", toDraft)).toMatchObject({ targetVersion: "2.0.0" });
  });

  test("receives the server's sentence for what does not exist", async () => {
    expect(await call("showContract", { userId: "nobody" })).toMatchObject({
      isError: true,
      text: "Contract with userId nobody not found",
    });
  });
});

test("a key works as x-api-key and as a Bearer token, and without one nothing does", async () => {
  for (const connect of Object.values(CLIENTS)) {
    const client = await connect(server.url, { authorization: `Bearer ${api.callers.evaluation.key}` });
    expect((await client.listTools()).tools.length).toBeGreaterThan(10);
    await client.close();
    await expect(connect(server.url, {})).rejects.toThrow(/API Key|401/);
    await expect(connect(server.url, { "x-api-key": `org_${"0".repeat(64)}` })).rejects.toThrow(/API Key|401/);
  }
});
