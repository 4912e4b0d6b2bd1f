import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { buildConsole, isConsoleStale } from "../src/entries/build/console.ts";
import { replaceFolder } from "../src/entries/build/output.ts";
import { bundleServer } from "../src/entries/build/server.ts";
import { CONSOLE_FOLDER } from "../src/entries/platform/assets.ts";
import { MIGRATIONS } from "../src/entries/platform/migrations.ts";
import { ASSETS } from "../src/http/routes/documentation.ts";
import { licencesOf } from "./licences.ts";
import { shrinkwrapOf } from "./lock.ts";

/*
 * Writes the npm package `faregate-server` to dist/faregate-server: the built servers and commands, the console, the migrations
 * and the database's driver with its repairs. Files stand where they stand in a clone, so the servers find them. The container
 * image is made from it.
 */

const ROOT = join(import.meta.dirname, "..");
const TARGET = join(ROOT, "dist/faregate-server");
const LIBRARY = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

interface Manifest {
  [field: string]: unknown;
  name: string;
  version: string;
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
}

const readJson = (path: string) => JSON.parse(readFileSync(join(ROOT, path), "utf8"));

if (isConsoleStale()) await buildConsole();
await replaceFolder(TARGET, async (fresh) => {
  const write = (path: string, content: object | string) => {
    mkdirSync(dirname(join(fresh, path)), { recursive: true });
    const text = typeof content === "string" ? content : `${JSON.stringify(content, null, 2)}\n`;
    writeFileSync(join(fresh, path), text);
  };
  const { inputs, outputs } = await bundleServer(join(fresh, "dist/server"), true);
  cpSync(CONSOLE_FOLDER, join(fresh, "dist/console"), { recursive: true });
  cpSync(MIGRATIONS, join(fresh, "src/db/migrations"), { recursive: true });
  mkdirSync(join(fresh, "dist/docs"));
  for (const name of Object.keys(ASSETS)) copyFileSync(join(LIBRARY, name), join(fresh, "dist/docs", name));
  write("bin/faregate-server.js", `#!/usr/bin/env node\nimport "../dist/server/faregate-server.js";\n`);
  chmodSync(join(fresh, "bin/faregate-server.js"), 0o755);

  const root: Manifest = readJson("package.json");
  const imports = Object.values(outputs).flatMap((output) => output.imports);
  const imported = new Set(
    imports.flatMap(({ external, path }) => (external ? [/^(@[^/]+\/)?[^/]+/.exec(path)?.[0]] : [])),
  );
  const dependencies = Object.fromEntries(Object.entries(root.dependencies).filter(([name]) => imported.has(name)));
  const { version, keywords, homepage, license, repository, engines, optionalDependencies } = root;
  const manifest = {
    name: "faregate-server",
    version,
    description: `${String(root["description"])}: server and console`,
    keywords,
    homepage,
    bugs: `${String(homepage).replace(/#.*/, "")}/issues`,
    license,
    repository,
    type: "module",
    engines,
    publishConfig: { access: "public", provenance: true },
    bin: { "faregate-server": "bin/faregate-server.js" },
    dependencies,
    optionalDependencies,
  };
  write("package.json", manifest);
  write("npm-shrinkwrap.json", shrinkwrapOf(readJson("package-lock.json"), manifest));
  const files = [...Object.keys(inputs), "node_modules/postgres/src/index.js", "node_modules/swagger-ui-dist/index.js"];
  const licences = licencesOf(files).map(({ name, text }) => `${name}\n\n${text}\n`);
  write("LICENCES.txt", `Licences of what this package contains.\n\n${licences.join(`\n${"-".repeat(80)}\n\n`)}`);
  copyFileSync(join(ROOT, "LICENSE"), join(fresh, "LICENSE"));
  // Before the first release there is none.
  const changelog = join(ROOT, ".github/CHANGELOG.md");
  if (existsSync(changelog)) copyFileSync(changelog, join(fresh, "CHANGELOG.md"));
  copyFileSync(join(import.meta.dirname, "SERVER.md"), join(fresh, "README.md"));
});
