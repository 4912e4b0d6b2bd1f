import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

/* `npm run release` in a copy of this project with a history of its own. */

const ROOT = resolve(import.meta.dirname, "../..");
let folder: string;
const git = (...args: string[]) =>
  execFileSync("git", ["-c", "user.name=Tester", "-c", "user.email=tester@example.com", ...args], {
    cwd: folder,
    encoding: "utf8",
  }).trim();
const release = (...args: string[]) =>
  spawnSync("npm", ["run", "-s", "release", "--", ...args], {
    cwd: folder,
    encoding: "utf8",
    env: {
      ...process.env,
      GIT_AUTHOR_NAME: "Tester",
      GIT_AUTHOR_EMAIL: "tester@example.com",
      GIT_COMMITTER_NAME: "Tester",
      GIT_COMMITTER_EMAIL: "tester@example.com",
    },
  });
const versionIn = (path: string): string => JSON.parse(readFileSync(join(folder, path), "utf8")).version;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "faregate-release-"));
  const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  for (const file of files.trim().split("\n")) {
    // A checkout may link its libraries.
    if (file !== "node_modules" && existsSync(join(ROOT, file)))
      cpSync(join(ROOT, file), join(folder, file), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  git("init", "--quiet", "--initial-branch=main");
  writeFileSync(join(folder, ".git/info/exclude"), "node_modules\n");
  git("add", ".");
  git("commit", "--quiet", "--message", "feat: everything");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a release has a version, a clean tree and a new tag, or else nothing happens", () => {
  const head = git("rev-parse", "HEAD");
  expect(release()).toMatchObject({ status: 1, stderr: expect.stringContaining("Which version?") });
  expect(release("one")).toMatchObject({ status: 1, stderr: "one is no version: it must look like 1.2.3.\n" });
  expect(release("0.0.9", "--checked")).toMatchObject({ status: 1, stderr: expect.stringContaining("is older than") });
  git("tag", "v7.0.0", git("commit-tree", "HEAD^{tree}", "-m", "elsewhere"));
  expect(release("7.0.0", "--checked")).toMatchObject({ status: 1, stderr: "The tag v7.0.0 exists.\n" });
  writeFileSync(join(folder, "README.md"), "changed\n");
  expect(release("7.1.0", "--checked")).toMatchObject({
    status: 1,
    stderr: "There are changes that are not committed.\n",
  });
  git("checkout", "--", "README.md");
  git("remote", "add", "origin", "https://github.com/somebody/else.git");
  expect(release("7.1.0", "--checked")).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("names the repository"),
  });
  git("remote", "remove", "origin");
  expect([git("rev-parse", "HEAD"), git("status", "--porcelain")]).toEqual([head, ""]);
});

test("a release that cannot be built leaves the tree as it was", () => {
  const source = join(folder, "src/client/client.ts");
  writeFileSync(source, `${readFileSync(source, "utf8")}\nexport const broken: string = 1;\n`);
  git("commit", "--quiet", "--all", "--message", "fix: break the build");
  const version = versionIn("package.json");
  expect(release("7.1.0", "--checked")).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("build:package failed"),
  });
  expect([versionIn("package.json"), git("status", "--porcelain"), git("tag", "--list", "v7.1.0")]).toEqual([
    version,
    "",
    "",
  ]);
  expect(existsSync(join(folder, ".github/CHANGELOG.md"))).toBe(false);
  git("reset", "--quiet", "--hard", "HEAD~1");
}, 120_000);

test("two releases in a row are built, tagged and in the changelog", () => {
  const first = release("7.1.0", "--checked");
  expect(first).toMatchObject({ status: 0, stdout: expect.stringContaining("Released v7.1.0") });
  for (const path of [
    "package.json",
    "package-lock.json",
    "dist/package/package.json",
    "dist/faregate-server/package.json",
  ]) {
    expect(versionIn(path), path).toBe("7.1.0");
  }
  expect(git("cat-file", "-t", "v7.1.0")).toBe("tag");
  expect(git("status", "--porcelain")).toBe("");
  git("commit", "--quiet", "--allow-empty", "--message", "fix(client): something");
  expect(release("7.1.1", "--checked").status).toBe(0);
  const changelog = readFileSync(join(folder, "dist/faregate-server/CHANGELOG.md"), "utf8");
  expect(changelog).toMatch(
    /^# Changelog\n[^]*\n## 7\.1\.1 \([\d-]+\)\n\n### Fixed\n\n- \*\*client\*\*: something\n\n## 7\.1\.0 /,
  );
  expect(changelog.match(/everything/g)).toHaveLength(1);
  expect(readFileSync(join(folder, "dist/package/CHANGELOG.md"), "utf8")).toBe(changelog);
}, 200_000);
