import { resolve } from "node:path";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { boundedJson, boundedText } from "../../../src/http/mcp/bounded.ts";
import { requestOf, TOOLS } from "../../../src/http/mcp/tools.ts";
import { OPERATIONS } from "../../../src/wire/operations.ts";

test("only operations that change nothing are tools, each once", () => {
  const names = [...TOOLS.keys()];
  expect(new Set(names).size).toBe(names.length);
  for (const { operation, definition } of TOOLS.values()) {
    expect(definition.name).toMatch(/^[a-zA-Z]{1,64}$/);
    expect(operation.idempotent !== true || operation.agent.fixed?.["dryRun"] === "true", operation.id).toBe(true);
    expect(["GET", "POST"]).toContain(operation.method);
  }
  const marked = OPERATIONS.filter(({ agent, id }) => agent !== undefined && !id.endsWith("InOrganization"));
  expect(names).toEqual(marked.map(({ id }) => id));
});

test("schemas stand alone, and name neither fixed nor hidden parameters", () => {
  for (const { definition } of TOOLS.values()) {
    expect(JSON.stringify(definition), definition.name).not.toMatch(/"\$ref"|"\$defs"|"\$schema"/);
  }
  const evaluate = TOOLS.get("evaluateFeature")?.definition;
  const names = Object.keys(evaluate?.inputSchema["properties"] ?? {});
  expect(names).toEqual(expect.arrayContaining(["userId", "featureId", "strict", "at", "body"]));
  for (const hidden of ["dryRun", "explain", "revert", "latest", "hold", "onExpiry"])
    expect(names).not.toContain(hidden);
  expect(evaluate?.inputSchema["required"]).toEqual(["userId", "featureId"]);
  expect(evaluate?.description).toContain(
    "Calls of agents always have dryRun=true (Returns the verdict without counting",
  );
});

test("the whole list of tools stays below what a model reads in one go", () => {
  const text = JSON.stringify([...TOOLS.values()].map(({ definition }) => definition));
  expect(text.length).toBeLessThan(40_000);
});

test("a request has the parameters in its path and query, and the organization before both", () => {
  const tool = TOOLS.get("listContracts");
  if (tool === undefined) throw new Error("no tool");
  const { method, path, page } = requestOf(tool, { organizationId: "o/1", q: "a&b=c", limit: 5 });
  expect([method, path, page]).toEqual([
    "GET",
    "/api/v1/organizations/o%2F1/contracts?q=a%26b%3Dc&limit=5",
    "contracts",
  ]);
});

test("long JSON is cut at lists, maps and texts, and each cut is named once", () => {
  const rows = Array.from({ length: 200 }, (_, i) => ({
    id: i,
    text: "x".repeat(5000),
    inner: Array.from({ length: 150 }, () => i),
  }));
  const { text, omitted } = boundedJson(JSON.stringify({ rows, kept: "all" }));
  expect(text.length).toBeLessThanOrEqual(30_000);
  const shown = JSON.parse(text) as { kept: string; rows: { id: number }[] };
  expect([shown.kept, shown.rows[0]?.id]).toEqual(["all", 0]);
  expect(omitted).toEqual([
    expect.stringMatching(/^rows: \d+ of 200$/),
    expect.stringMatching(/^rows\[\]\.text: \d+ of 5000 characters$/),
    expect.stringMatching(/^rows\[\]\.inner: \d+ of 150$/),
  ]);
  const map = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`name-${i}`, "x".repeat(20)]));
  expect(boundedJson(JSON.stringify({ map })).omitted).toEqual([expect.stringMatching(/^map: \d+ of 3000$/)]);
  expect(boundedJson('{"a":1}')).toEqual({ text: '{"a":1}', omitted: [] });
});

test("an answer too large to be parsed is left out, and a long text ends at a line", () => {
  expect(boundedJson(`["${"x".repeat(5_000_000)}"]`)).toEqual({
    text: "",
    omitted: ["the answer, which has 5000004 characters"],
  });
  const { text, omitted } = boundedText("a line of text\n".repeat(10_000));
  expect(text.endsWith("text\n")).toBe(true);
  expect(omitted).toEqual([`${150_000 - text.length} of 150000 characters at the end`]);
});

test("the application starts without the SDK, which loads at the first call of a tool", async () => {
  const { metafile } = await build({
    entryPoints: ["src/http/app.ts"],
    absWorkingDir: resolve(import.meta.dirname, "../../.."),
    outdir: "dist/none",
    write: false,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    packages: "bundle",
    metafile: true,
  });
  const outputs = new Map(Object.entries(metafile.outputs));
  const loaded = new Set(["dist/none/app.js"]);
  // A set's iteration goes on to what is added meanwhile.
  for (const name of loaded) {
    for (const { path, kind } of outputs.get(name)?.imports ?? []) if (kind === "import-statement") loaded.add(path);
  }
  const inputs = (names: Iterable<string>) =>
    [...names].flatMap((name) => Object.keys(outputs.get(name)?.inputs ?? {}));
  const ofSdk = (input: string) => input.includes("node_modules/@modelcontextprotocol/");
  expect(inputs(loaded)).toContain("src/http/mcp/route.ts");
  expect(inputs(loaded).filter(ofSdk)).toEqual([]);
  expect(inputs(outputs.keys()).filter(ofSdk)).not.toEqual([]);
});
