import { afterAll, beforeAll, expect, test } from "vitest";
import { guideFiles } from "../../../src/entries/build/guides.ts";
import { TOOLS } from "../../../src/http/mcp/tools.ts";
import type { Operation } from "../../../src/wire/operation.ts";
import { callTool, post } from "../../support/agents.ts";
import { createTestApi, type TestApi } from "../../support/api.ts";
import { contract, contractFor, tasker, upload } from "../../support/contracting.ts";
import { yamlUpload } from "../../support/uploads.ts";

const FILES = new Map(Object.entries(guideFiles()).map(([name, text]) => [name, new TextEncoder().encode(text)]));

let api: TestApi;

beforeAll(async () => {
  api = await createTestApi({
    settings: { publicUrl: "https://fare.example" },
    readConsole: async (name) => FILES.get(name),
  });
  const { key } = api.callers.all;
  await upload(api, key, tasker(), tasker({ version: "1.1.0", createdAt: "2025-02-01" }));
  await contract(api, key, "ada");
});
afterAll(() => api.close());

test("a denied tool call is in the audit log with the route and the request's id", async () => {
  const { evaluation, all } = api.callers;
  const given = { serviceName: "tasker", body: { action: "archive", pricingVersion: "1.0.0" } };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "predictImpact", arguments: given } };
  const answer = await post(api, evaluation.key, body, { "x-request-id": "agent-7" });
  expect(answer.headers.get("x-request-id")).toBe("agent-7");
  expect(answer.body.result?.content[0]?.text).toBe(
    "Your organization API key role (EVALUATION) does not have permission to POST /services/tasker/impact",
  );
  await api.resources.deniedAttempts.flush();
  const { body: log } = await api.call<{ data: { action: string; target: string; requestId: string }[] }>(
    "GET",
    "/audit-log",
    { key: all.key },
  );
  const entries = log.data.filter(({ requestId }) => requestId === "agent-7");
  expect(entries).toHaveLength(1);
  expect(JSON.stringify(entries[0])).toContain("/services/:serviceName/impact");
});

const PATH: Record<string, string> = {
  serviceName: "tasker",
  pricingVersion: "1.0.0",
  userId: "ada",
  featureId: "tasker-board",
};
const QUERY: Record<string, Record<string, string>> = { compareVersions: { from: "1.0.0", to: "1.1.0" } };
const BODIES: Record<string, object> = {
  predictImpact: { action: "novation", pricingVersion: "1.1.0" },
  replayUsage: { pricingVersion: "1.1.0" },
};
const DRAFT = tasker({ version: "3.0.0", createdAt: "2025-04-01" });

/** The arguments of a tool, and the REST call that they stand for. */
function exampleOf(operation: Operation, inside: string | undefined) {
  const query = QUERY[operation.id] ?? {};
  const isFile = operation.body === "pricing" || operation.body === "upload";
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
  const given: Record<string, unknown> = {
    ...Object.fromEntries(names.map((name) => [name, PATH[name]])),
    ...query,
    ...(isFile ? { pricing: DRAFT } : {}),
    ...(BODIES[operation.id] === undefined ? {} : { body: BODIES[operation.id] }),
    ...(inside === undefined ? {} : { organizationId: inside }),
  };
  const fixed = Object.entries(operation.agent?.fixed ?? {}).flatMap(([name, value]) =>
    value === null ? [] : [[name, value]],
  );
  const search = new URLSearchParams([...fixed, ...Object.entries(query)]).toString();
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => PATH[name] ?? "");
  const body = isFile ? yamlUpload(DRAFT) : operation.method === "POST" ? (BODIES[operation.id] ?? {}) : undefined;
  return {
    given,
    path: `${inside === undefined ? "" : `/organizations/${inside}`}${path}${search === "" ? "" : `?${search}`}`,
    body,
  };
}

test.each([...TOOLS.values()].map(({ operation }) => operation))(
  "$id answers every caller as its REST call does",
  async (operation) => {
    const { organizationId, all, management, evaluation, ...users } = api.callers;
    const hasTwin = TOOLS.get(operation.id)?.names.has("organizationId") === true;
    for (const caller of [all, management, evaluation, ...Object.values(users)]) {
      for (const inside of hasTwin ? [undefined, organizationId] : [undefined]) {
        const { given, path, body } = exampleOf(operation, inside);
        const rest = await api.call<{ error?: string }>(operation.method, path, { key: caller.key, body });
        const { status, body: rpc } = await callTool(api, caller.key, operation.id, given);
        expect(status).toBe(200);
        const [first] = rpc.result?.content ?? [];
        expect(rpc.result?.isError === true, `${path} ${first?.text}`).toBe(rest.status >= 400);
        if (rest.status >= 400) expect(first?.text).toBe(rest.body.error);
        else expect(first?.text).toBe(typeof rest.body === "string" ? rest.body : JSON.stringify(rest.body));
      }
    }
  },
);

test("answers name the page of the console, by organization", async () => {
  const { all, owner, organizationId } = api.callers;
  const notes = async (key: string, name: string, given: object) =>
    (await callTool(api, key, name, given)).body.result?.content.at(-1)?.text;
  const home = `https://fare.example/console/o/${organizationId}`;
  expect(await notes(all.key, "listServices", {})).toBe(`In the console: ${home}/services`);
  expect(await notes(owner.key, "listServices", { organizationId })).toBe(`In the console: ${home}/services`);
  const version = { serviceName: "tasker", pricingVersion: "1.0.0" };
  expect(await notes(all.key, "showSource", version)).toBe(`In the console: ${home}/services/tasker/versions/1.0.0`);
});

test("a long answer is cut, says so, and names the call with the whole of it", async () => {
  const { key } = api.callers.all;
  for (let i = 0; i < 60; i += 1) {
    const userId = `user-${String(i).padStart(3, "0")}`;
    await contract(api, key, userId, contractFor(userId, { groupId: "x".repeat(500) }));
  }
  const { body } = await callTool(api, key, "listContracts", { limit: 60 });
  const [shown, notes] = body.result?.content.map(({ text }) => text) ?? [];
  expect(shown?.length).toBeLessThanOrEqual(30_000);
  expect((JSON.parse(shown ?? "") as unknown[]).length).toBe(20);
  expect(notes).toBe(
    [
      "Matches in all: 61",
      "Shortened. entries: 20 of 60.",
      "Ask for less at a time with page, offset, after, limit.",
      "The whole answer: GET /api/v1/contracts?limit=60 with the same key.",
      `In the console: https://fare.example/console/o/${api.callers.organizationId}/contracts`,
    ].join("\n"),
  );
});

test("a draft is checked and compared, and stays a draft", async () => {
  const { key } = api.callers.management;
  const draft = tasker({ version: "3.0.0", createdAt: "2025-04-01", maxTasks: 5 }).replace("silent:", "noisy:");
  const checked = await callTool(api, key, "lintDraft", { pricing: draft });
  expect(JSON.parse(checked.body.result?.content[0]?.text ?? "")).toMatchObject({
    saasName: "Tasker",
    version: "3.0.0",
    warnings: expect.arrayContaining([expect.objectContaining({ severity: "warning", line: expect.any(Number) })]),
  });
  const met = await callTool(api, key, "lintDraft", {
    pricing: draft,
    expectations: "expectations:\n  - { plan: PRO, features: { darkMode: false } }\n",
  });
  expect(met.body.result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("expect") }, {}] });
  const broken = await callTool(api, key, "lintDraft", { pricing: "saasName: [" });
  expect(broken.body.result?.content[0]?.text).toMatch(/^Pricing parsing error: /);
  expect(JSON.parse(broken.body.result?.content[1]?.text ?? "")).toMatchObject({ problems: [{ line: 1 }] });
  const compared = await callTool(api, key, "compareDraft", {
    serviceName: "tasker",
    pricing: draft,
    format: "markdown",
  });
  expect(compared.body.result?.content[0]?.text).toContain("maxTasks");
  const versions = await api.call("GET", "/services/tasker/versions", { key });
  expect(JSON.stringify(versions.body)).not.toContain("3.0.0");
});

test("the guides are resources, and nothing else is", async () => {
  const { key } = api.callers.evaluation;
  const ask = async (method: string, params: object) =>
    (await post(api, key, { jsonrpc: "2.0", id: 1, method, params })).body;
  const { result } = await ask("resources/list", {});
  const resources = result?.["resources"] as { uri: string; name: string; title: string; description: string }[];
  expect(resources.map(({ uri }) => uri)).toEqual(
    expect.arrayContaining(["faregate://llms.txt", "faregate://docs/pricing-file.md"]),
  );
  for (const { uri, title, description } of resources) {
    expect(title.length, uri).toBeGreaterThan(3);
    expect(description, uri).toMatch(/^[^\n]{20,400}$/);
  }
  const guide = await ask("resources/read", { uri: "faregate://docs/pricing-file.md" });
  expect(guide.result?.["contents"]).toEqual([
    {
      uri: "faregate://docs/pricing-file.md",
      mimeType: "text/markdown",
      text: guideFiles()["docs/pricing-file.md"],
    },
  ]);
  for (const uri of [
    "faregate://docs/../index.html",
    "faregate://docs/none.md",
    "file:///etc/passwd",
    "",
    "__proto__",
  ]) {
    expect((await ask("resources/read", { uri })).error, uri).toMatchObject({ code: -32602 });
  }
});

test("a guide is also a file below /docs, without a key", async () => {
  const answer = await api.app.request("/docs/pricing-file.md");
  expect(answer.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
  expect(await answer.text()).toBe(guideFiles()["docs/pricing-file.md"]);
  const page = await api.app.request("/llms.txt");
  expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
  const links = [...(await page.text()).matchAll(/\]\(([^)]+)\)/g)].map(([, link = ""]) => link);
  expect(links.length).toBeGreaterThan(5);
  for (const link of links) expect((await api.app.request(`/${link}`)).status, link).toBe(200);
  for (const path of ["/docs/none.md", "/docs/index.json", "/docs/..%2findex.html"]) {
    expect((await api.app.request(path)).status, path).toBeGreaterThanOrEqual(400);
  }
});
