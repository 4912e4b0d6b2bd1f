import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { type Plugin, rolldown } from "rolldown";
import { requireRepairedDriver } from "../src/entries/platform/driver.ts";
import { shortenDeclarations } from "./declarations.ts";
import { reactGuard } from "./guard.ts";
import { licencesOf } from "./licences.ts";

/*
 * Writes the npm package to dist/package: ESM, CommonJS and declarations, file by file as in src. Bundlers can then
 * drop unused files, and `"use client"` keeps its place. The command line is one bundled file. The manifest is the
 * root's without the server: `npm publish ./dist/package`.
 */

const ROOT = join(import.meta.dirname, "..");
const TARGET = join(ROOT, "dist/package");

type Conditions = Record<"import" | "require", { types: string; default: string }>;

interface Manifest {
  [field: string]: unknown;
  exports: Record<string, string | Conditions>;
  bin: Record<string, string>;
  dependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
}

rmSync(TARGET, { recursive: true, force: true });
for (const format of ["esm", "cjs"]) {
  const tsc = spawnSync(
    process.execPath,
    [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", `.package/${format}.json`],
    {
      cwd: ROOT,
      stdio: "inherit",
    },
  );
  if (tsc.status !== 0) process.exit(1);
}

const root: Manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const { name, version, description, keywords, homepage, license, repository } = root;
const { engines, peerDependencies, peerDependenciesMeta } = root;
const dependencies: Record<string, string> = {};
for (const file of filesOf(".js").filter((path) => path.startsWith(join(TARGET, "esm")))) {
  for (const [, imported = ""] of readFileSync(file, "utf8").matchAll(
    /^(?:import|export|\}).* from "([^."][^"]*)"/gm,
  )) {
    const [dependency = ""] = /^(@[^/]+\/)?[^/]+/.exec(imported) ?? [];
    if (dependency in peerDependencies) continue;
    const wanted = root.dependencies[dependency];
    if (wanted === undefined) throw new Error(`${file} imports ${imported}, which is no dependency`);
    dependencies[dependency] = wanted;
  }
}
for (const format of ["esm", "cjs"]) {
  const declared = [...JSON.stringify(root.exports).matchAll(/"\.\/dist\/package\/(\w+)\/([^"]+\.d\.ts)"/g)];
  const entries = declared.flatMap(([, of, path = ""]) => (of === format ? [path] : []));
  shortenDeclarations(join(TARGET, format), entries);
}
const bin: Record<string, string> = {};
for (const [command, source] of Object.entries(root.bin)) bin[command] = await bundleCommand(command, source);
const exports: Manifest["exports"] = JSON.parse(JSON.stringify(root.exports).replaceAll("./dist/package/", "./"));
const main = classicFields(".", "");
write("package.json", {
  name,
  version,
  description,
  keywords,
  homepage,
  bugs: homepage?.toString().replace(/#.*/, "/issues"),
  license,
  repository,
  type: "module",
  engines,
  publishConfig: { access: "public", provenance: true },
  sideEffects: false,
  bin,
  ...main,
  exports,
  dependencies,
  peerDependencies,
  peerDependenciesMeta,
});
write("cjs/package.json", { type: "commonjs", sideEffects: false });
// Compilers and bundlers that do not read `exports` look for a folder of the entry's name.
for (const entry of Object.keys(exports).filter((path) => path !== "." && path !== "./package.json")) {
  write(`${entry}/package.json`, {
    sideEffects: false,
    ...classicFields(entry, "../".repeat(entry.split("/").length - 1)),
  });
}
copyFileSync(join(ROOT, "LICENSE"), join(TARGET, "LICENSE"));
// `faregate import-space` prepares its database. Snapshots of the schema are for developers.
cpSync(join(ROOT, "src/db/migrations"), join(TARGET, "db/migrations"), {
  recursive: true,
  filter: (path) => !/(_snapshot\.json|README\.md)$/.test(path),
});
copyFileSync(join(import.meta.dirname, "README.md"), join(TARGET, "README.md"));
// Before the first release there is none.
const changelog = join(ROOT, ".github/CHANGELOG.md");
if (existsSync(changelog)) copyFileSync(changelog, join(TARGET, "CHANGELOG.md"));
// Beside the package: a link that is not followed finds the application's React first.
const guard = join(TARGET, "../node_modules/react");
mkdirSync(guard, { recursive: true });
for (const [file, text] of Object.entries(reactGuard())) writeFileSync(join(guard, file), text);

/** Returns an entry's files for resolution without `exports`. `up` is the way from the folder to the package. */
function classicFields(entry: string, up: string): { main: string; module: string; types: string } {
  const conditions = exports[entry];
  if (conditions === undefined || typeof conditions === "string") throw new Error(`package.json exports no ${entry}`);
  const path = (file: string) => (up === "" ? file : up + file.slice(2));
  const { import: esm, require: cjs } = conditions;
  return { main: path(cjs.default), module: path(esm.default), types: path(cjs.types) };
}

/** Keeps the places of files that a source finds beside it: the package has them as `src` has. */
function sourceUrls(): Plugin {
  return {
    name: "source-urls",
    transform: {
      filter: { id: /[/\\]src[/\\].*\.ts$/, code: "import.meta.url" },
      handler: (code, id) => {
        const source = JSON.stringify(`../${relative(join(ROOT, "src"), id)}`);
        return code.replaceAll("import.meta.url", `new URL(${source}, import.meta.url).href`);
      },
    },
  };
}

/** Bundles the command line with its libraries, so that users of the client library do not install them. */
async function bundleCommand(command: string, source: string): Promise<string> {
  requireRepairedDriver();
  const build = await rolldown({
    input: join(ROOT, source),
    cwd: ROOT,
    platform: "node",
    logLevel: "warn",
    transform: { define: { IS_COMMAND_LINE: "true" } },
    plugins: [sourceUrls()],
  });
  const { output } = await build.generate({ format: "esm", codeSplitting: false });
  const [{ code, moduleIds }] = output;
  const licences = licencesOf(moduleIds).map(({ name, text }) => `\n/*\n${name}\n\n${text}\n*/\n`);
  mkdirSync(join(TARGET, "bin"), { recursive: true });
  const path = `bin/${command}.js`;
  const text = `#!/usr/bin/env node\n${code.replace(/^#!.*\n/, "")}${licences.join("")}`;
  writeFileSync(join(TARGET, path), text, { mode: 0o755 });
  return path;
}

function filesOf(extension: string): string[] {
  const all = readdirSync(TARGET, { recursive: true, encoding: "utf8" });
  return all.filter((file) => file.endsWith(extension)).map((file) => join(TARGET, file));
}

function write(path: string, content: object): void {
  mkdirSync(dirname(join(TARGET, path)), { recursive: true });
  writeFileSync(join(TARGET, path), `${JSON.stringify(content, null, 2)}\n`);
}
