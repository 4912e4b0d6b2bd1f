import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";

/*
 * Writes the npm package to dist/package: ESM, CommonJS and declarations, file by file as in src. Bundlers can then
 * drop unused files, and `"use client"` keeps its place. The command line is one bundled file. The manifest is the
 * root's without the server: `npm publish ./dist/package`.
 */

const ROOT = join(import.meta.dirname, "..");
const TARGET = join(ROOT, "dist/package");

interface Manifest {
  [field: string]: unknown;
  exports: object;
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

// The compiler rewrites extensions only in JavaScript, and older compilers do not find `x.d.ts` behind `./x.ts`. It
// indents by four spaces, a tenth of what applications download.
for (const file of filesOf(".d.ts")) {
  const text = readFileSync(file, "utf8");
  const found = text.replace(/(from |import\()"(\.\.?\/[^"]+)\.tsx?"/g, '$1"$2.js"');
  const indented = found.replace(/^( {4})+/gm, (indent) => "\t".repeat(indent.length / 4));
  writeFileSync(file, indented.replace(/^(export )?declare class [^]*?^\}/gm, withoutPrivates));
}

const root: Manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const { name, version, description, license, engines, peerDependencies, peerDependenciesMeta } = root;
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
for (const format of ["esm", "cjs"]) pruneDeclarations(format);
const bin: Record<string, string> = {};
for (const [command, source] of Object.entries(root.bin)) bin[command] = await bundleCommand(command, source);
const exports: unknown = JSON.parse(JSON.stringify(root.exports).replaceAll("./dist/package/", "./"));
write("package.json", {
  name,
  version,
  description,
  license,
  type: "module",
  engines,
  sideEffects: false,
  bin,
  exports,
  dependencies,
  peerDependencies,
  peerDependenciesMeta,
});
write("cjs/package.json", { type: "commonjs", sideEffects: false });
copyFileSync(join(ROOT, "LICENSE"), join(TARGET, "LICENSE"));

/** Bundles the command line with its libraries, so that users of the client library do not install them. */
async function bundleCommand(command: string, source: string): Promise<string> {
  const build = await rolldown({ input: join(ROOT, source), cwd: ROOT, platform: "node", logLevel: "warn" });
  const { output } = await build.generate({ format: "esm", codeSplitting: false });
  const [{ code, moduleIds }] = output;
  const packages = new Set(moduleIds.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []));
  const licences = [...packages].sort().map((folder) => {
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    if (file === undefined) throw new Error(`${folder} has no licence to print`);
    return `\n/*\n${folder.split("/node_modules/").at(-1)}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n*/\n`;
  });
  mkdirSync(join(TARGET, "bin"), { recursive: true });
  const path = `bin/${command}.js`;
  const text = `#!/usr/bin/env node\n${code.replace(/^#!.*\n/, "")}${licences.join("")}`;
  writeFileSync(join(TARGET, path), text, { mode: 0o755 });
  return `./${path}`;
}

/** Keeps one private member: it makes a class compatible with itself only. The others tell applications nothing. */
function withoutPrivates(declaration: string): string {
  let isFirst = true;
  return declaration.replace(/^(\t\/\*\*(?:(?!\*\/)[^])*\*\/\n)?\tprivate [^;\n]*;\n/gm, () => {
    const kept = isFirst ? "\t#private;\n" : "";
    isFirst = false;
    return kept;
  });
}

/** Removes declarations that no entry imports. */
function pruneDeclarations(format: string): void {
  const reached = new Set<string>();
  const reach = (file: string) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, next = ""] of readFileSync(file, "utf8").matchAll(/(?:from |import\()"(\.\.?\/[^"]+)\.js"/g)) {
      reach(join(file, "..", `${next}.d.ts`));
    }
  };
  for (const [, entry] of JSON.stringify(root.exports).matchAll(/"\.\/dist\/package\/(\w+\/[^"]+\.d\.ts)"/g)) {
    if (entry?.startsWith(format) === true) reach(join(TARGET, entry));
  }
  for (const file of filesOf(".d.ts")) if (file.startsWith(join(TARGET, format)) && !reached.has(file)) rmSync(file);
}

function filesOf(extension: string): string[] {
  const all = readdirSync(TARGET, { recursive: true, encoding: "utf8" });
  return all.filter((file) => file.endsWith(extension)).map((file) => join(TARGET, file));
}

function write(path: string, content: object): void {
  writeFileSync(join(TARGET, path), `${JSON.stringify(content, null, 2)}\n`);
}
