import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { environmentOf, execute } from "./programs.ts";
import { type PackagedServer, startPackagedServer } from "./running-server.ts";

/* The library from its tarball in an empty folder, with the peers that the npm registry resolves, on every runtime. */

const ROOT = resolve(import.meta.dirname, "../..");
let server: PackagedServer;
let folder: string;

const ASK = `
  const [url, apiKey] = process.argv.slice(-2);
  const { features } = new Faregate({ url, apiKey });
  const use = { consumption: { "tasker-maxTasks": 1 }, strict: true };
  const { eval: isAllowed } = await features.evaluate("ada", "tasker-board", use);
  const token = parsePricingToken(await features.pricingToken("ada"));
  console.log(JSON.stringify([isAllowed, usageOf(token.features["tasker-board"]).limit, renderToString(
    createElement(TestServiceProvider, { features: { "tasker-board": true } },
      createElement(Feature, { id: "tasker-board" }, createElement(On, null, "on"))))]));
`;

beforeAll(async () => {
  server = await startPackagedServer(inject("tarballs").installation);
  await server.contract("ada");
  folder = mkdtempSync(join(tmpdir(), "faregate-library-"));
  writeFileSync(join(folder, "package.json"), "{}");
  const env = await environmentOf("Node 20");
  const install = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline"];
  const peers = [
    "react@19",
    "react-dom@19",
    "@types/react@19",
    "@types/node@20",
    "@openfeature/server-sdk",
    "@openfeature/web-sdk",
  ];
  await execute([...install, inject("tarballs").library, ...peers, "@openfeature/core"], { cwd: folder, env });
  const imports = {
    Faregate: "faregate",
    "parsePricingToken, usageOf": "faregate/server",
    "Feature, On": "faregate/react",
    TestServiceProvider: "faregate/testing",
    createElement: "react",
    renderToString: "react-dom/server",
  };
  const lines = (line: (names: string, from: string) => string) =>
    Object.entries(imports)
      .map(([names, from]) => line(names, from))
      .join("\n");
  writeFileSync(join(folder, "ask.mjs"), lines((names, from) => `import { ${names} } from "${from}";`) + ASK);
  const cjs = lines((names, from) => `const { ${names} } = require("${from}");`);
  writeFileSync(join(folder, "ask.cjs"), `${cjs}\n(async () => {${ASK}})();\n`);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe("the library package", () => {
  it.each([
    ["Node 20", ["node"]],
    ["Node 24", ["node"]],
    ["Bun", ["bun"]],
  ] as const)(
    "on %s a back end asks and counts, and React 19 renders, with import and with require",
    async (runtime, program) => {
      const env = await environmentOf(runtime);
      for (const file of ["ask.mjs", "ask.cjs"]) {
        const said = await execute([...program, file, server.url, server.key], { cwd: folder, env });
        expect(JSON.parse(said)).toEqual([true, 200, "on"]);
      }
    },
  );

  it("on Deno a back end asks and counts", async () => {
    const env = await environmentOf("Node 20");
    const deno = join(ROOT, "node_modules/.bin/deno");
    const given = [
      deno,
      "run",
      "--no-prompt",
      "--node-modules-dir=manual",
      "--allow-net",
      "--allow-env",
      "--allow-read",
    ];
    const said = await execute([...given, "ask.mjs", server.url, server.key], { cwd: folder, env });
    expect(JSON.parse(said)).toEqual([true, 200, "on"]);
  });

  it.each([
    ["classic", { module: "commonjs", moduleResolution: "node10" }],
    ["nodenext", { module: "nodenext", moduleResolution: "nodenext" }],
    ["bundler", { module: "esnext", moduleResolution: "bundler" }],
  ])("TypeScript 5 finds every declaration with the %s resolution", async (_, options) => {
    writeFileSync(
      join(folder, "use.ts"),
      `import { Faregate, type FeatureAnswer } from "faregate";
import { ServiceClient } from "faregate/client";
import { FaregateProvider } from "faregate/openfeature/server";
import { FaregateLocalProvider } from "faregate/openfeature/local";
import { FaregateWebProvider } from "faregate/openfeature/web";
import { parsePricing } from "faregate/pricing";
import { useFeature } from "faregate/react";
import { parsePricingToken as same } from "faregate/react/server";
import { createTestToken } from "faregate/react/testing";
import { parsePricingToken, usageOf } from "faregate/server";
import { TestServiceProvider } from "faregate/testing";
export const { features } = new Faregate({ url: "http://localhost", apiKey: "key" });
export const answer: Promise<FeatureAnswer> = features.evaluate("ada", "tasker-board");
export const left: number | null = usageOf(parsePricingToken(createTestToken()).features["tasker-board"]).remaining;
export const all = [ServiceClient, FaregateProvider, FaregateLocalProvider, FaregateWebProvider, parsePricing, useFeature, same, TestServiceProvider];
`,
    );
    const compilerOptions = {
      ...options,
      strict: true,
      target: "es2022",
      lib: ["es2022", "dom"],
      noEmit: true,
      ignoreDeprecations: "5.0",
      noUncheckedIndexedAccess: true,
      // For the declarations of OpenFeature's SDK.
      types: ["node"],
      skipLibCheck: false,
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
    const env = await environmentOf("Node 20");
    const tsc = join(ROOT, "node_modules/typescript5/bin/tsc");
    expect(await execute(["node", tsc, "-p", "."], { cwd: folder, env })).toBe("");
  });

  it("a linked folder never brings a second React", async () => {
    const linked = mkdtempSync(join(tmpdir(), "faregate-linked-"));
    mkdirSync(join(linked, "node_modules"));
    symlinkSync(join(ROOT, "dist/package"), join(linked, "node_modules/faregate"));
    for (const name of ["react", "react-dom", "scheduler"]) {
      symlinkSync(join(folder, "node_modules", name), join(linked, "node_modules", name));
    }
    writeFileSync(join(linked, "page.mjs"), `import { Feature } from "faregate/react";\nconsole.log(Feature);\n`);
    const env = await environmentOf("Node 20");
    await expect(execute(["node", "page.mjs"], { cwd: linked, env })).rejects.toThrow("faregate is linked as a folder");
    rmSync(linked, { recursive: true, force: true });
  });
});
