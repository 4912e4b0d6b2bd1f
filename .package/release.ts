import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { changelogEntry, versionProblem, withEntry } from "./changelog.ts";

/*
 * `npm run release -- <version>` makes a release of both packages: checks, sets the version, builds, writes the changelog, commits
 * and tags. It publishes nothing. When a step fails, the working tree is as before. `--checked` leaves out the checks, for a
 * commit that CI has passed.
 */

const ROOT = process.cwd();
const CHANGELOG = ".github/CHANGELOG.md";
const WRITTEN = ["package.json", "package-lock.json", CHANGELOG];

class Refusal extends Error {}

/** Runs a program and returns its output. @throws Refusal */
function run(program: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1e8 });
  if (status === 0) return stdout.trim();
  throw new Refusal(`${program} ${args.join(" ")} failed:\n${stdout}${stderr}`.trimEnd());
}

const tell = (sentence: string) => void process.stdout.write(`${sentence}\n`);

/** Returns the newest release that this commit contains; undefined before the first. */
function lastTag(): string | undefined {
  const tags = run("git", "tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").split("\n");
  return tags.find((tag) => /^v\d+\.\d+\.\d+$/.test(tag));
}

function requireReleasable(version: string, last: string | undefined): void {
  const { version: current, repository } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const problem = versionProblem(version, last?.slice(1) ?? current, last === undefined);
  if (problem !== undefined) throw new Refusal(problem);
  if (run("git", "status", "--porcelain") !== "") throw new Refusal("There are changes that are not committed.");
  if (run("git", "tag", "--list", `v${version}`) !== "") throw new Refusal(`The tag v${version} exists.`);
  const remote = spawnSync("git", ["remote", "get-url", "origin"], { cwd: ROOT, encoding: "utf8" }).stdout.trim();
  // npm accepts provenance only for the repository that the package names.
  if (/github\.com/.test(remote) && addressOf(remote) !== addressOf(repository.url)) {
    throw new Refusal(`origin is ${remote}, but package.json names the repository ${repository.url}.`);
  }
}

const addressOf = (url: string) => /github\.com[:/](.+?)(?:\.git)?$/.exec(url)?.[1];

function release(version: string, isChecked: boolean): void {
  const last = lastTag();
  requireReleasable(version, last);
  if (!isChecked) {
    for (const script of ["verify", "check:unused", "test:packages"]) {
      tell(`npm run ${script} …`);
      run("npm", "run", "-s", script);
    }
  }
  const hadChangelog = existsSync(join(ROOT, CHANGELOG));
  try {
    run("npm", "version", version, "--no-git-tag-version", "--allow-same-version", "--ignore-scripts");
    const range = last === undefined ? "HEAD" : `${last}..HEAD`;
    const subjects = run("git", "log", "--reverse", "--no-merges", "--format=%s", range).split("\n");
    const entry = changelogEntry(version, new Date().toISOString().slice(0, 10), subjects);
    const before = hadChangelog ? readFileSync(join(ROOT, CHANGELOG), "utf8") : undefined;
    writeFileSync(join(ROOT, CHANGELOG), withEntry(before, entry));
    tell("Building both packages …");
    run("npm", "run", "-s", "build:package");
    run("npm", "run", "-s", "build:server-package");
    run("git", "add", ...WRITTEN);
    run("git", "commit", "--quiet", "--message", `chore(release): ${version}`);
    run("git", "tag", "--annotate", `v${version}`, "--message", `Faregate ${version}`);
  } catch (error) {
    run("git", "reset", "--quiet", "--", ".");
    run("git", "checkout", "--quiet", "--", ...WRITTEN.filter((file) => file !== CHANGELOG || hadChangelog));
    if (!hadChangelog) rmSync(join(ROOT, CHANGELOG), { force: true });
    throw error;
  }
  tell(`Released v${version}. To publish it, from CI with provenance:
  git push --follow-tags
  npm publish ./dist/package && npm publish ./dist/faregate-server`);
}

try {
  const given = process.argv.slice(2);
  const isChecked = given.includes("--checked");
  const [version, ...rest] = given.filter((argument) => argument !== "--checked");
  if (version === undefined || rest.length > 0) {
    throw new Refusal("Which version? `npm run release -- <version> [--checked]` takes one such as 1.2.3.");
  }
  release(version, isChecked);
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
