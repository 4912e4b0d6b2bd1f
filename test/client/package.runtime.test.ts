import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { publint } from "publint";
import { type OutputChunk, rolldown } from "rolldown";
import { firstLoad } from "../support/bundle.ts";
import { smallInstallation, writeDump } from "../support/space-dump.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

/* Source: contract clients §1.13, §3.2; defects R21, R22, N10. Everything is asserted on what would be published. */

const ROOT = resolve(import.meta.dirname, "../..");
const PACKAGE = join(ROOT, "dist/package");
/** Entries that bundles are measured of. */
const ENTRIES = [
  "pricing",
  "client",
  "verify",
  "local",
  "ai",
  "mcp",
  "openfeature/server",
  "openfeature/local",
  "openfeature/web",
  "react",
  "react/server",
  "testing",
] as const;
/** Bytes of a kilobyte in the promises below. */
const KB = 1024;
/** Names of the React library that a page needs which only shows a token. */
const TOKENS = "ServiceProvider, Feature, On, Default, Loading, ErrorFallback, useTokenService, usePricingTokenPayload";
/** Every import that applications write. The last ones are shorter or longer names of those above. */
const IMPORTS = [
  ...ENTRIES.map((entry) => `faregate/${entry}`),
  "faregate",
  "faregate/server",
  "faregate/react/testing",
];
const SOURCES: Record<(typeof ENTRIES)[number], string> = {
  pricing: "core/pricing",
  client: "client/client",
  verify: "client/verify",
  local: "local/local",
  ai: "ai/ai",
  mcp: "mcp/mcp",
  "openfeature/server": "openfeature/server",
  "openfeature/local": "openfeature/local",
  "openfeature/web": "openfeature/web",
  react: "react/react",
  "react/server": "react/server",
  testing: "react/testing",
};

beforeAll(() => {
  execFileSync(process.execPath, ["--import", "tsx", ".package/build.ts"], { cwd: ROOT });
}, 60_000);

/** A production build of an application with this source, peers not counted. */
async function bundle(source: string): Promise<OutputChunk[]> {
  const build = await rolldown({
    input: "application",
    cwd: PACKAGE,
    platform: "browser",
    logLevel: "silent",
    external: [/^react($|\/)/, /^@openfeature\//],
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

test("attw resolves the types of every entry for import, for require, and without `exports`", () => {
  const attw = join(ROOT, "node_modules/@arethetypeswrong/cli/dist/index.js");
  const report = execFileSync(process.execPath, [attw, "--pack", PACKAGE, "--format", "json"], {
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
  const folders =
    entry === "pricing"
      ? /\/esm\/core\//
      : entry === "openfeature/local"
        ? /\/esm\/(client|openfeature|local|core)\//
        : entry === "local"
          ? /\/esm\/(client|local|core)\//
          : entry.startsWith("openfeature")
            ? /\/esm\/(client|openfeature|core\/least-recently-used)\b/
            : entry === "ai" || entry === "mcp"
              ? /\/esm\/(ai|mcp|client\/back\/(denial|holds)|core\/holds)\b/
              : /\/esm\/(client|react|core\/least-recently-used)\b/;
  for (const id of own) expect(id).toMatch(id.includes("/node_modules/") ? /./ : folders);
  const peers = entry.startsWith("openfeature") ? /^@openfeature\// : /^react($|\/)/;
  const known = new Set(chunks.map(({ fileName }) => fileName));
  for (const imported of chunks.flatMap(({ imports }) => imports)) {
    if (!known.has(imported)) expect(imported).toMatch(peers);
  }
});

/** Bytes that an application with these names of the React library loads first, per file, by esbuild. */
async function firstFiles(names: string): Promise<number[]> {
  const source = `import { ${names} } from "./esm/react/react.js"; globalThis.used = [${names}];`;
  const files = await firstLoad(source, PACKAGE, ["react", "react/*"]);
  const sources = files.flatMap((file) => file.sources);
  expect(sources.filter((path) => /socket|engine\.io|token-loader|\/request\.|esm\/core/.test(path))).toEqual([]);
  return files.map(({ bytes }) => bytes);
}
const sum = (numbers: readonly number[]) => numbers.reduce((all, each) => all + each, 0);

describe("sizes, compressed", () => {
  test("bundlers that split by module load 4 kB for tokens alone, and two files of 380 bytes together", async () => {
    const [own = 0, ...shared] = await firstFiles(TOKENS);
    expect(own).toBeGreaterThan(2 * KB);
    expect(own).toBeLessThanOrEqual(4 * KB);
    // The class of request errors, which later parts share, and the bundler's own function for the socket library.
    expect(shared.length).toBeLessThanOrEqual(2);
    expect(sum(shared)).toBeLessThanOrEqual(380);
  });

  test("offers and unlocks add 2.5 kB at most with these bundlers too", async () => {
    const without = await firstFiles("ServiceProvider, useFeature");
    const everything = await firstFiles(
      "ServiceProvider, useFeature, useOffer, useUnlock, Offer, OfferTable, UnlockPrompt",
    );
    expect(sum(everything) - sum(without)).toBeLessThanOrEqual(2500);
  });

  test("the React library for tokens alone is 4 kB at most, with requests 7 kB; the channel is a chunk of 14 kB", async () => {
    const chunks = await bundle(`import { ${TOKENS} } from "./esm/react/react.js"; globalThis.used = [${TOKENS}];`);
    const main = withStatic(named(chunks, "application"), chunks);
    expect(compressed(main)).toBeLessThanOrEqual(4 * KB);
    expect(modules(main).filter((id) => /socket|engine\.io|token-loader|request|suspense|esm\/core/.test(id))).toEqual(
      [],
    );
    const session = withStatic(named(chunks, "service-session"), chunks).filter((chunk) => !main.includes(chunk));
    expect(compressed(main) + compressed(session)).toBeLessThanOrEqual(7 * KB);
    const loaded = [...main, ...session];
    const live = withStatic(named(chunks, "live-channel"), chunks).filter((chunk) => !loaded.includes(chunk));
    expect(compressed(live)).toBeLessThanOrEqual(14_000);
  });

  test("offers and unlocks add 2.5 kB at most, and nothing to a page without them", async () => {
    const bundled = async (names: string) => {
      const chunks = await bundle(`import { ${names} } from "./esm/react/react.js"; globalThis.used = [${names}];`);
      return { main: withStatic(named(chunks, "application"), chunks), chunks };
    };
    const without = await bundled("ServiceProvider, useFeature");
    expect(modules(without.main).filter((id) => /offer|unlock|asking/.test(id))).toEqual([]);
    const everything = await bundled(
      "ServiceProvider, useFeature, useOffer, useUnlock, Offer, OfferTable, UnlockPrompt",
    );
    expect(compressed(everything.main) - compressed(without.main)).toBeLessThanOrEqual(2500);
    expect(compressed([named(everything.chunks, "ask")])).toBeLessThanOrEqual(650);
  });

  test("OpenFeature in a page is 5.7 kB at most beside its SDK, what connects comes later; on a back end it is 3.1 kB", async () => {
    const page = await bundle(`export * from "./esm/openfeature/web.js";`);
    const main = withStatic(named(page, "application"), page);
    expect(compressed(main)).toBeLessThanOrEqual(5.7 * KB);
    expect(modules(main).filter((id) => /socket|engine\.io|token-loader|\/request\./.test(id))).toEqual([]);
    const backEnd = await bundle(`export { FaregateProvider } from "./esm/openfeature/server.js";`);
    expect(compressed(backEnd)).toBeLessThanOrEqual(3.1 * KB);
  });

  test("the verifier of tokens is 2 kB at most, and imports no package", async () => {
    const chunks = await bundle(
      `import { createTokenVerifier } from "./esm/client/verify.js"; globalThis.used = createTokenVerifier;`,
    );
    expect(modules(chunks).filter((id) => id.includes("/node_modules/"))).toEqual([]);
    expect(compressed(chunks)).toBeLessThanOrEqual(2_000);
  });

  test.each(["ai/ai", "mcp/mcp"])("faregate/%s is 3 kB at most, and has no dependency", async (path) => {
    const chunks = await bundle(`export * from "./esm/${path}.js";`);
    expect(modules(chunks).filter((id) => id.includes("/node_modules/"))).toEqual([]);
    expect(compressed(chunks)).toBeLessThanOrEqual(3_000);
  });

  test("who only parses and evaluates a pricing has nothing of what compares pricings, and 32 kB at most", async () => {
    const names = "parsePricing, compilePricing, prepareEvaluation, evaluateFeature, checkSubscription, grant";
    const chunks = await bundle(`import { ${names} } from "./esm/core/pricing.js"; globalThis.used = [${names}];`);
    expect(modules(chunks).filter((id) => /core\/change/.test(id))).toEqual([]);
    expect(compressed(chunks)).toBeLessThanOrEqual(32 * KB);
    const all = await bundle(`export * from "./esm/core/pricing.js";`);
    expect(
      modules(all).filter((id) =>
        /core\/change\/(diff|lint|best-fit|impact)\/(diff|lint|best-fit|impact)\.js/.test(id),
      ),
    ).toHaveLength(4);
  });

  test("no client boundary has `export *` of values, which Next rejects", () => {
    const boundaries = readdirSync(join(PACKAGE, "esm"), { recursive: true, encoding: "utf8" }).filter(
      (file) => file.endsWith(".js") && readFileSync(join(PACKAGE, "esm", file), "utf8").startsWith('"use client"'),
    );
    expect(boundaries).toContain("react/react.js");
    for (const file of boundaries) expect(readFileSync(join(PACKAGE, "esm", file), "utf8")).not.toMatch(/^export \*/m);
  });

  test("development messages are not in production builds", async () => {
    const chunks = await bundle(`export * from "./esm/react/react.js";`);
    expect(chunks.map(({ code }) => code).join()).not.toMatch(/gates nothing|is shown|not recognised/);
  });

  /** Every declaration file that an editor reads for some entries. */
  function declarationFiles(...entries: string[]): Map<string, string> {
    const files = new Map<string, string>();
    const reach = (path: string) => {
      if (files.has(path)) return;
      const text = readFileSync(path, "utf8");
      files.set(path, text);
      for (const [, next] of text.matchAll(/(?:from |import |import\()"(\.\.?\/[^"]+)\.js"/g)) {
        reach(join(path, "..", `${next}.d.ts`));
      }
    };
    for (const entry of entries) reach(join(PACKAGE, "esm", `${entry}.d.ts`));
    expect(files.size).toBeGreaterThan(entries.length);
    for (const text of files.values()) expect(text).not.toMatch(/from "\.[^"]*\.tsx?"/);
    return files;
  }
  /** The files without documentation, which a compiler skips and an editor shows. */
  const declarations = (...entries: string[]) =>
    new Map([...declarationFiles(...entries)].map(([path, text]) => [path, text.replace(/\/\*\*[^]*?\*\//g, "")]));
  const sizeOf = (files: Map<string, string>) => [...files.values()].join("").length;
  /** Calls that a back end can make: public methods of the classes behind `Faregate`. */
  const backEndCalls = () =>
    [...declarations("client/client")].flatMap(([path, text]) =>
      path.includes("/client/back/") ? (text.match(/^\t(?!constructor)\w+(<\w+>)?\(/gm) ?? []) : [],
    ).length;

  test("R22: the declarations of the React library are 20 kB at most, documentation not counted", () => {
    expect(sizeOf(declarations("react/react", "react/server", "react/testing"))).toBeLessThanOrEqual(20 * KB);
  });

  test("R22: documentation included, an editor reads 33 kB for faregate/react", () => {
    expect(sizeOf(declarationFiles("react/react"))).toBeLessThanOrEqual(33 * KB);
  });

  test("R22: the declarations of the client are 800 bytes at most per call of a back end", () => {
    expect(backEndCalls()).toBeGreaterThanOrEqual(36);
    expect(sizeOf(declarations("client/client"))).toBeLessThanOrEqual(800 * backEndCalls());
  });

  test("a page that uses the front end's half of the client has nothing of the back end's", async () => {
    const chunks = await bundle(
      `import { ServiceClient, TokenService } from "./esm/client/client.js"; globalThis.used = [ServiceClient, TokenService];`,
    );
    expect(modules(chunks).filter((id) => /esm\/(client\/back\/|core)/.test(id))).toEqual([]);
  });

  test("a back end that uses the other half has nothing of sockets and tokens, and 135 bytes at most per call", async () => {
    const chunks = await bundle(`import { Faregate } from "./esm/client/client.js"; globalThis.used = [Faregate];`);
    expect(chunks).toHaveLength(1);
    expect(
      modules(chunks).filter((id) => /node_modules|service-client|session|token-service|listeners/.test(id)),
    ).toEqual([]);
    expect(compressed(chunks)).toBeLessThanOrEqual(135 * backEndCalls());
  });
});

test("every declaration is TypeScript, and names only what exists", () => {
  const files = ["esm", "cjs"].flatMap((format) =>
    readdirSync(join(PACKAGE, format), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".d.ts"))
      .map((file) => join(PACKAGE, format, file)),
  );
  expect(files.length).toBeGreaterThan(100);
  const given = ["--noEmit", "--strict", "--module", "esnext", "--moduleResolution", "bundler", "--types", "node"];
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const run = spawnSync(process.execPath, [tsc, "--ignoreConfig", "--skipLibCheck", "false", ...given, ...files], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const own = run.stdout.split("\n").filter((line) => line.startsWith("dist/package"));
  expect(own).toEqual([]);
}, 60_000);

test("npm would publish the package without a warning, with provenance", () => {
  const published = spawnSync("npm", ["publish", "--dry-run", "--no-provenance", "--loglevel=notice"], {
    cwd: PACKAGE,
    encoding: "utf8",
  });
  expect(published).toMatchObject({ status: 0, stdout: expect.stringMatching(/^\+ faregate@/m) });
  const warnings = published.stderr.split("\n").filter((line) => line.startsWith("npm warn"));
  // Nobody is signed in where tests run.
  expect(warnings.filter((line) => !line.includes("This command requires you to be logged in"))).toEqual([]);
  const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  expect(manifest).toMatchObject({ license: "MIT", publishConfig: { access: "public", provenance: true } });
  expect(manifest.repository.url).toBe(`git+${manifest.homepage.replace("#readme", "")}.git`);
  expect(manifest.keywords.length).toBeGreaterThan(3);
});

test("the README links to files that exist, and names every entry", () => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const links = [...readme.matchAll(/\/(?:blob|tree)\/main\/([^)]+)\)/g)].map(([, path = ""]) => path);
  expect(links.length).toBeGreaterThan(2);
  for (const link of links) expect(existsSync(join(ROOT, link)), link).toBe(true);
  for (const name of IMPORTS) expect(readme).toContain(`\`${name}\``);
});

describe("the formats", () => {
  test("R21, N10: require gets CommonJS, which runtimes that cannot require ES modules load as well", () => {
    const path = createRequire(join(PACKAGE, "package.json")).resolve("faregate/react");
    expect(path).toBe(join(PACKAGE, "cjs/react/react.js"));
    expect(readFileSync(path, "utf8")).toMatch(/^"use strict";\s+"use client";/);
    expect(JSON.parse(readFileSync(join(PACKAGE, "cjs/package.json"), "utf8"))).toMatchObject({ type: "commonjs" });
  });

  test("React entries are client modules; the server entries are not, and one of them needs no React", async () => {
    for (const entry of ["react", "testing"] as const) {
      expect(readFileSync(join(PACKAGE, `esm/${SOURCES[entry]}.js`), "utf8")).toMatch(/^"use client";/);
    }
    const withoutReact = await bundle(`export * from "./esm/client/server.js";`);
    expect(withoutReact.flatMap(({ imports }) => imports)).toEqual([]);
    const chunks = await bundle(`export * from "./esm/react/server.js";`);
    expect(chunks.flatMap(({ imports }) => imports)).toEqual(["react/jsx-runtime"]);
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

describe("the tarball, installed in a project of its own", () => {
  let project: string;
  const run = (command: string, args: string[]) => spawnSync(command, args, { cwd: project, encoding: "utf8" });
  const faregate = (...args: string[]) => run("npx", ["--no", "--", "faregate", ...args]);

  beforeAll(() => {
    project = mkdtempSync(join(tmpdir(), "faregate-package-"));
    const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", project], {
      cwd: PACKAGE,
      encoding: "utf8",
    });
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "shop", private: true, type: "module" }));
    const install = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", `./${packed.trim()}`];
    execFileSync("npm", install, { cwd: project });
    copyFileSync(join(ROOT, "src/samples/tasker.yml"), join(project, "tasker.yml"));
    // The peers, as the application's own.
    for (const peer of ["react", "@openfeature"]) {
      symlinkSync(join(ROOT, "node_modules", peer), join(project, "node_modules", peer));
    }
  }, 60_000);
  afterAll(() => rmSync(project, { recursive: true }));

  const namesOf = (type: "module" | "commonjs", code: string) => {
    const args = [`--input-type=${type}`, "-e", `console.log(Object.keys(${code}).sort().join())`];
    const names = execFileSync(process.execPath, args, { cwd: project, encoding: "utf8" }).trim().split(",");
    return names.filter((name) => !["__esModule", "default", "module.exports"].includes(name));
  };

  test.each(IMPORTS)("%s loads with import and with require, in plain Node", (name) => {
    const imported = namesOf("module", `await import("${name}")`);
    expect(imported).toEqual(namesOf("commonjs", `require("${name}")`));
    expect(imported).not.toEqual([]);
  });

  test("a folder that is linked instead refuses React's entries with a sentence, and never brings a second React", () => {
    const linked = mkdtempSync(join(tmpdir(), "faregate-linked-"));
    mkdirSync(join(linked, "node_modules"));
    symlinkSync(PACKAGE, join(linked, "node_modules/faregate"));
    symlinkSync(join(ROOT, "node_modules/react"), join(linked, "node_modules/react"));
    const load = (type: string, code: string, ...options: string[]) =>
      spawnSync(process.execPath, [...options, `--input-type=${type}`, "-e", code], { cwd: linked, encoding: "utf8" });
    for (const run of [
      load("module", `await import("faregate/react")`),
      load("commonjs", `require("faregate/react")`),
    ]) {
      expect(run).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("Error: faregate is linked as a folder"),
      });
    }
    expect(load("commonjs", `require("faregate")`)).toMatchObject({ status: 0, stderr: "" });
    const kept = load("commonjs", `require("faregate/react")`, "--preserve-symlinks");
    expect(kept).toMatchObject({ status: 0, stderr: "" });
    rmSync(linked, { recursive: true });
  });

  test("npx faregate types writes a declaration with which only the pricing's ids compile", () => {
    const version: string = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version;
    expect(faregate("--version")).toMatchObject({ status: 0, stdout: `${version}\n` });
    expect(faregate("types", "tasker.yml", "--check")).toMatchObject({ status: 1 });
    expect(faregate("types", "tasker.yml")).toMatchObject({ status: 0 });
    expect(faregate("types", "tasker.yml", "--check")).toMatchObject({ status: 0, stdout: "" });

    const compilerOptions = {
      strict: true,
      module: "nodenext",
      target: "es2023",
      lib: ["es2023", "dom"],
      noEmit: true,
    };
    const tsconfig = { compilerOptions: { ...compilerOptions, types: [] }, include: ["*.ts"] };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify(tsconfig));
    const source = (id: string) => `import { Faregate } from "faregate/client";
const { features } = new Faregate({ url: "http://localhost:3000", apiKey: "org_key" });
export const answer = features.evaluate("ada", "${id}", { consumption: { "tasker-maxTasks": 1 }, strict: true });
`;
    const tsc = () => run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "."]);
    writeFileSync(join(project, "shop.ts"), source("tasker-board"));
    expect(tsc()).toMatchObject({ status: 0, stdout: "" });
    writeFileSync(join(project, "shop.ts"), source("tasker-bored"));
    const refused = tsc();
    expect(refused.status).not.toBe(0);
    expect(refused.stdout).toMatch(/^shop\.ts\(3,\d+\): .*"tasker-bored.* is not assignable .*FeatureIds.*\n$/);
  }, 60_000);

  test("npx faregate types tells the line of what is wrong, and exits with 2", () => {
    const broken = readFileSync(join(project, "tasker.yml"), "utf8").replace("currency: EUR", "currency: 7");
    writeFileSync(join(project, "broken.yml"), broken);
    const { status, stderr } = faregate("types", "broken.yml", "--out", "broken.d.ts");
    expect(status).toBe(2);
    expect(stderr).toMatch(/^ {2}broken\.yml:7:1 .*currency/m);
    expect(existsSync(join(project, "broken.d.ts"))).toBe(false);
    expect(faregate("types", ".", "--out", "-")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("cannot be read"),
    });
    expect(faregate("types", "tasker.yml", "--out", "no/such/ids.d.ts")).toMatchObject({
      status: 2,
      stderr: "faregate: no/such/ids.d.ts cannot be written: the folder no/such does not exist. Create it first.\n",
    });
  }, 60_000);

  test("npx faregate import-space reads a dump without a database, and asks for one to write into", async () => {
    const dump = await writeDump(smallInstallation());
    expect(faregate("import-space", dump.folder, "--dry-run")).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("2 contracts, 4 levels, 2 history entries"),
    });
    expect(faregate("import-space", dump.folder)).toMatchObject({ status: 2, stderr: "DATABASE_URL is not set\n" });
    await dump.remove();
  }, 60_000);

  test("the command line is one file that runs on Bun too, with the licences of what is in it", () => {
    const bin = join(project, "node_modules/faregate/bin/faregate.js");
    const bun = run(join(ROOT, "node_modules/.bin/bun"), [bin, "types", "tasker.yml", "--out", "-"]);
    expect(bun).toMatchObject({ status: 0, stdout: readFileSync(join(project, "faregate-features.d.ts"), "utf8") });
    expect(readFileSync(bin, "utf8")).toMatch(/commander[^]*TJ Holowaychuk[^]*js-yaml[^]*MIT/);
    expect(readFileSync(bin, "utf8")).toMatch(/\nyaml\n[^]*Eemeli Aro/);
  });

  test("npx faregate works in a clone as well, without a build", () => {
    const inClone = spawnSync("npx", ["--no", "--", "faregate", "types", "src/samples/tasker.yml", "--out", "-"], {
      cwd: ROOT,
      encoding: "utf8",
    });
    expect(inClone).toMatchObject({ status: 0, stdout: expect.stringContaining('"tasker-board": true;') });
  });
});

test("the manifest has React, OpenFeature and the AI SDK as optional peers and only what the entries import as dependencies", () => {
  const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  expect(manifest).toMatchObject({
    name: "faregate",
    sideEffects: false,
    dependencies: { "js-yaml": expect.any(String), "socket.io-client": expect.any(String) },
    peerDependencies: { react: ">=18.2 <20", "@openfeature/server-sdk": expect.any(String) },
  });
  expect(Object.keys(manifest.dependencies)).toHaveLength(2);
  const peers = Object.keys(manifest.peerDependencies);
  expect(peers).toEqual([
    "@ai-sdk/provider",
    "@openfeature/core",
    "@openfeature/server-sdk",
    "@openfeature/web-sdk",
    "react",
  ]);
  for (const peer of peers) expect(manifest.peerDependenciesMeta[peer]).toEqual({ optional: true });
  expect(manifest.scripts).toBeUndefined();
});
