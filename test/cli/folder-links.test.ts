import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCli } from "../../src/cli/cli.ts";
import { cliHost } from "../../src/entries/platform/cli-host.ts";

/* Paths of a real file system: links that lead out of a folder, and folders in the place of files. */

let root: string;
beforeAll(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "faregate-links-")));
  await mkdir(join(root, "outside"));
  await writeFile(join(root, "outside/secret.yml"), "secret: 1\n");
});
afterAll(() => rm(root, { recursive: true, force: true }));

let folders = 0;
/** Writes a folder with these links, by path. */
async function folderWith(manifest: string, links: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(root, `folder-${(folders += 1)}`);
  await mkdir(folder);
  await writeFile(join(folder, "faregate.yml"), manifest);
  for (const [path, target] of Object.entries(links)) await symlink(target, join(folder, path));
  return folder;
}

async function run(...args: string[]) {
  const run = { code: -1, err: "" };
  run.code = await runCli(args, {
    ...cliHost("1.2.3"),
    env: { FAREGATE_URL: "http://faregate.test", FAREGATE_API_KEY: "org_1" },
    fetch: () => Promise.reject(new Error("no network in this test")),
    out: () => {},
    err: (text) => (run.err += text),
  });
  return run;
}

const manifestOf = (entry: string) => `faregate: 1\nservices:\n  Tasker:\n    versions:\n      - ${entry}\n`;

describe.each(["plan", "apply"])("%s names the entry of a link", (command) => {
  test.each([
    ["to a file", "{ file: a.yml }", { "a.yml": "../outside/secret.yml" }, "a.yml"],
    ["in the middle", "{ file: tasker/secret.yml }", { tasker: "../outside" }, "tasker/secret.yml"],
    ["to nothing yet", "{ file: a.yml }", { "a.yml": "../outside/none.yml" }, "a.yml"],
    ["to another link", "{ file: a.yml }", { "a.yml": "b.yml", "b.yml": "../outside/none.yml" }, "a.yml"],
  ])("%s", async (_, entry, links, path) => {
    const refused = await run(command, await folderWith(manifestOf(entry), links));
    expect(refused).toEqual({
      code: 1,
      err: `faregate: faregate.yml:5:9 ${path} leads out of the folder through a link. Put the file itself there\n`,
    });
  });
});

test("a folder inside the working directory is named with its path", async () => {
  const folder = await folderWith(manifestOf("{ file: a.yml }"), { "a.yml": "/etc/passwd" });
  const relative = join("..", folder.slice(1)).replace(/^/, "../".repeat(process.cwd().split("/").length - 2));
  expect((await run("plan", relative)).err).toMatch(/^faregate: (\.\.\/)+\S+\/faregate\.yml:5:9 a\.yml leads out/);
});

test("the manifest itself can be such a link, and a circle of links leads nowhere", async () => {
  const folder = join(root, "linked");
  await mkdir(folder);
  await symlink("../outside/secret.yml", join(folder, "faregate.yml"));
  expect((await run("plan", folder)).err).toBe(
    "faregate: faregate.yml leads out of the folder through a link. Put the file itself there\n",
  );
  const circle = await folderWith(manifestOf("{ file: a.yml }"), { "a.yml": "b.yml", "b.yml": "a.yml" });
  expect(await run("plan", circle)).toMatchObject({ code: 1, err: expect.stringContaining("a.yml cannot be read") });
});

test.each([
  ["outside", "it is a folder."],
  ["outside/secret.yml/tasker.yml", "a part of this path is a file and no folder."],
])("%s as a pricing is an error in words", async (path, reason) => {
  const file = join(root, path);
  expect(await run("lint", file)).toEqual({ code: 2, err: `faregate: ${file} cannot be read: ${reason}\n` });
});
