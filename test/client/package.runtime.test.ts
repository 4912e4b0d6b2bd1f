import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { publint } from "publint";
import { type OutputChunk, rolldown } from "rolldown";
import { beforeAll, describe, expect, test } from "vitest";

/* Source: contract clients §1.13, §3.2; defects R21, R22, N10. Everything is asserted on what would be published. */

const ROOT = resolve(import.meta.dirname, "../..");
const PACKAGE = join(ROOT, "dist/package");
const ENTRIES = ["pricing", "client", "react", "react/space", "react/server", "testing"] as const;
const SOURCES: Record<(typeof ENTRIES)[number], string> = {
  pricing: "core/pricing",
  client: "client/client",
  react: "react/react",
  "react/space": "react/space",
  "react/server": "react/server",
  testing: "react/testing",
};

beforeAll(() => {
  execFileSync(process.execPath, ["--import", "tsx", ".package/build.ts"], { cwd: ROOT });
}, 60_000);

/** A production build of an application with this source, React not counted. */
async function bundle(source: string): Promise<OutputChunk[]> {
  const build = await rolldown({
    input: "application",
    cwd: PACKAGE,
    platform: "browser",
    logLevel: "silent",
    external: [/^react($|\/)/],
    transform: { target: "es2020", define: { "process.env.NODE_ENV": '"production"' } },
    plugins: [
      {
        name: "application",
        resolveId: (id) => (id === "application" ? join(PACKAGE, "application.js") : null),
        load: (id) => (id.endsWith("application.js") ? source : null),
      },
    ],
  });
  const { output } = await build.generate({ format: "esm", minify: true });
  return output.filter((file) => file.type === "chunk");
}
const modules = (chunks: OutputChunk[]) => chunks.flatMap(({ moduleIds }) => moduleIds);
/** Bytes of the chunks together, each compressed as it travels. */
const compressed = (chunks: OutputChunk[]) =>
  chunks.reduce((sum, { code }) => sum + gzipSync(code, { level: 9 }).length, 0);
/** The chunk and everything that it imports statically. */
function withStatic(chunk: OutputChunk, all: OutputChunk[]): OutputChunk[] {
  const imported = all.filter(({ fileName }) => chunk.imports.includes(fileName));
  return [...new Set([chunk, ...imported.flatMap((next) => withStatic(next, all))])];
}
const named = (chunks: OutputChunk[], name: string) => {
  const found = chunks.find((chunk) => chunk.fileName.startsWith(name));
  if (found === undefined) throw new Error(`no chunk ${name} in ${chunks.map(({ fileName }) => fileName).join()}`);
  return found;
};

test("publint finds nothing", async () => {
  const { messages } = await publint({ pkgDir: PACKAGE, strict: true });
  expect(messages).toEqual([]);
}, 30_000);

test("attw resolves the types of every entry for import and require", () => {
  const attw = join(ROOT, "node_modules/@arethetypeswrong/cli/dist/index.js");
  const report = execFileSync(process.execPath, [attw, "--pack", PACKAGE, "--profile", "node16", "--format", "json"], {
    encoding: "utf8",
  });
  expect(JSON.parse(report)).toMatchObject({ analysis: { packageName: "faregate" } });
}, 60_000);

test.each(ENTRIES)("faregate/%s brings nothing of the server", async (entry) => {
  const chunks = await bundle(`export * from "./esm/${SOURCES[entry]}.js";`);
  const own = modules(chunks).filter((id) => id.startsWith(ROOT) && !id.endsWith("application.js"));
  expect(own.length).toBeGreaterThan(0);
  const foreign = own
    .filter((id) => id.includes("/node_modules/"))
    .map((id) => id.split("/node_modules/").at(-1)?.split("/")[0]);
  const allowed =
    entry === "pricing"
      ? ["js-yaml"]
      : ["socket.io-client", "socket.io-parser", "engine.io-client", "engine.io-parser", "@socket.io"];
  for (const name of foreign) expect(allowed).toContain(name);
  const folders = entry === "pricing" ? /\/esm\/core\// : /\/esm\/(client|react)\//;
  for (const id of own) expect(id).toMatch(id.includes("/node_modules/") ? /./ : folders);
});

describe("sizes, compressed", () => {
  test("the React library for tokens alone is 4 kB at most; what connects comes later, in chunks of 3 and 14 kB", async () => {
    const names =
      "ServiceProvider, Feature, On, Default, Loading, ErrorFallback, useTokenService, usePricingTokenPayload";
    const chunks = await bundle(`import { ${names} } from "./esm/react/react.js"; globalThis.used = [${names}];`);
    const main = withStatic(named(chunks, "application"), chunks);
    expect(compressed(main)).toBeLessThanOrEqual(4000);
    expect(modules(main).filter((id) => /socket|engine\.io|token-loader|request/.test(id))).toEqual([]);
    const session = withStatic(named(chunks, "service-session"), chunks).filter((chunk) => !main.includes(chunk));
    expect(compressed(session)).toBeLessThanOrEqual(3000);
    const loaded = [...main, ...session];
    const live = withStatic(named(chunks, "live-channel"), chunks).filter((chunk) => !loaded.includes(chunk));
    expect(compressed(live)).toBeLessThanOrEqual(14_000);
  });

  test("development messages are not in production builds", async () => {
    const chunks = await bundle(`export * from "./esm/react/react.js";`);
    expect(chunks.map(({ code }) => code).join()).not.toMatch(/gates nothing|is shown|not recognised/);
  });

  test("R22: the declarations of client and React library are 20 kB at most, their documentation not counted", () => {
    const files = ["client", "react"].flatMap((folder) =>
      readdirSync(join(PACKAGE, "esm", folder))
        .filter((file) => file.endsWith(".d.ts"))
        .map((file) => join(PACKAGE, "esm", folder, file)),
    );
    const text = files.map((file) => readFileSync(file, "utf8")).join("");
    expect(text.replace(/\/\*\*[^]*?\*\//g, "").length).toBeLessThanOrEqual(20_000);
    expect(text).not.toMatch(/from "\.[^"]*\.tsx?"/);
  });
});

describe("the entries load", () => {
  const run = (code: string, type: "module" | "commonjs") =>
    execFileSync(process.execPath, [`--input-type=${type}`, "-e", code], { cwd: PACKAGE, encoding: "utf8" }).trim();

  test.each(ENTRIES)("faregate/%s with import and with require, in plain Node", (entry) => {
    const names = run(`console.log(Object.keys(await import("faregate/${entry}")).sort().join())`, "module");
    const required = run(`console.log(Object.keys(require("faregate/${entry}")).sort().join())`, "commonjs");
    const ignored = (name: string) => name !== "__esModule" && name !== "default" && name !== "module.exports";
    expect(names.split(",").filter(ignored)).toEqual(required.split(",").filter(ignored));
    expect(names).not.toBe("");
  });

  test("R21, N10: require gets CommonJS, which runtimes that cannot require ES modules load as well", () => {
    const require = createRequire(join(PACKAGE, "package.json"));
    const path = require.resolve("faregate/react");
    expect(path).toBe(join(PACKAGE, "cjs/react/react.js"));
    expect(readFileSync(path, "utf8")).toMatch(/^"use strict";\s+"use client";/);
    expect(JSON.parse(readFileSync(join(PACKAGE, "cjs/package.json"), "utf8"))).toMatchObject({ type: "commonjs" });
  });

  test("React entries are client modules; the server entry is not, and knows no React", async () => {
    for (const entry of ["react", "react/space", "testing"] as const) {
      expect(readFileSync(join(PACKAGE, `esm/${SOURCES[entry]}.js`), "utf8")).toMatch(/^"use client";/);
    }
    const chunks = await bundle(`export * from "./esm/react/server.js";`);
    expect(chunks.flatMap(({ imports }) => imports)).toEqual([]);
    expect(chunks.map(({ code }) => code).join()).not.toMatch(/createContext|document|window/);
  });
});

test("types of feature ids: narrowed where declared, strings where not", () => {
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  for (const project of ["declared", "undeclared"]) {
    const run = spawnSync(process.execPath, [tsc, "-p", join(ROOT, "test/client/types", project)], {
      encoding: "utf8",
    });
    expect(run.stdout).toBe("");
    expect(run.status).toBe(0);
  }
}, 30_000);

test("the manifest has React as an optional peer and only what the entries import as dependencies", () => {
  const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  expect(manifest).toMatchObject({
    name: "faregate",
    sideEffects: false,
    dependencies: { "js-yaml": expect.any(String), "socket.io-client": expect.any(String) },
    peerDependencies: { react: ">=18.2 <20" },
    peerDependenciesMeta: { react: { optional: true } },
  });
  expect(Object.keys(manifest.dependencies)).toHaveLength(2);
  expect(manifest.scripts).toBeUndefined();
});
