import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { environmentOf, execute, startProgram } from "./programs.ts";
import { type PackagedServer, prepareServer, startPackagedServer } from "./running-server.ts";

/*
 * The last release's client against this server, and this client against the last release's server. A deployment replaces
 * one before the other.
 */

const ROOT = resolve(import.meta.dirname, "../..");
/** Stands in for the last release until there is a tag: the last commit before the packages could be installed. */
const BEFORE_RELEASES = "d2b4cd26cdd62463285887a956df466e9c2c0819";
const SEMANTIC = /^v\d+\.\d+\.\d+$/;

const git = (...args: string[]) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();

/** Returns the newest release before this commit. */
function lastRelease(): string {
  const tags = git("tag", "--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-version:refname");
  return tags.split("\n").find((tag) => SEMANTIC.test(tag)) ?? BEFORE_RELEASES;
}

const SCENARIO = `
import { Faregate, ServiceClient, parsePricingToken, usageOf } from "faregate/client";

const [url, apiKey, userId] = process.argv.slice(2);
const { contracts, features, services } = new Faregate({ url, apiKey });
const said = [];
const { usageLevels, contractedServices, subscriptionPlans } = await contracts.create({
  userContact: { userId, username: userId },
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "PRO" },
  subscriptionAddOns: { tasker: { extraTasks: 1 } },
});
said.push(contractedServices, subscriptionPlans, Object.keys(usageLevels.tasker));
const use = { consumption: { "tasker-maxTasks": 299 }, strict: true };
for (let call = 0; call < 2; call += 1) {
  const { eval: isAllowed, used, limit, remaining, error } = await features.evaluate(userId, "tasker-board", use);
  said.push({ isAllowed, used, limit, remaining, error });
}
said.push((await features.evaluateAll(userId)).features);
const token = parsePricingToken(await features.pricingToken(userId));
said.push(Object.keys(token).sort(), token.sub, usageOf(token.features["tasker-board"]));
await features.revert(userId, "tasker-board");
said.push((await contracts.get(userId)).usageLevels.tasker.maxTasks.consumed);
await contracts.incrementUsage(userId, { tasker: { maxTasks: 7 } });
await contracts.novate(userId, {
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "BUSINESS" },
  subscriptionAddOns: {},
});
said.push((await features.evaluate(userId, "tasker-export")).eval);
said.push((await services.list()).map(({ name }) => name));
await contracts.get("nobody").catch(({ name, status, message }) => said.push({ name, status, message }));

const page = new ServiceClient({ url, apiKey });
await page.setUserId(userId);
said.push(page.token.evaluateFeature("tasker-export"), page.token.getFeature("tasker-board").status);
page.dispose();
console.log(JSON.stringify(said));
`;

let folder: string;
let current: PackagedServer;
let previous: PackagedServer;

/** Runs the scenario with a library's package. Returns what it prints. */
async function answersOf(library: string, server: PackagedServer, userId: string): Promise<unknown> {
  const application = join(folder, `application-${userId}`);
  mkdirSync(application);
  const env = await environmentOf("Node 20");
  writeFileSync(join(application, "package.json"), "{}");
  writeFileSync(join(application, "scenario.mjs"), SCENARIO);
  await execute(["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", library], { cwd: application, env });
  const output = await execute(["node", "scenario.mjs", server.url, server.key, userId], { cwd: application, env });
  return JSON.parse(output.replaceAll(userId, "USER"));
}

let oldLibrary: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "faregate-compatibility-"));
  const release = lastRelease();
  const sources = join(folder, "release");
  mkdirSync(sources);
  const archive = join(folder, "release.tar");
  git("archive", `--output=${archive}`, release);
  execFileSync("tar", ["-xf", archive, "-C", sources]);
  symlinkSync(join(ROOT, "node_modules"), join(sources, "node_modules"));
  const env = await environmentOf("Node 20");
  await execute(["npm", "run", "-s", "build:package"], { cwd: sources, env });
  const packed = await execute(["npm", "pack", "--silent", "--pack-destination", folder], {
    cwd: join(sources, "dist/package"),
    env,
  });
  oldLibrary = join(folder, packed.trim());
  const startOld = async (extra: Record<string, string>) =>
    startProgram(["node", "--import", "tsx", "src/entries/start.ts"], { cwd: sources, env: { ...env, ...extra } });
  [current, previous] = await Promise.all([
    startPackagedServer(inject("tarballs").installation),
    prepareServer(startOld),
  ]);
});
afterAll(async () => {
  await Promise.all([current.stop(), previous.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

describe("compatibility with the last release", () => {
  it("its client gets the same answers from this server, and this client from its server, as both of this commit", async () => {
    const { library } = inject("tarballs");
    const expected = await answersOf(library, current, "now");
    expect(expected).toMatchObject({ length: 15, 3: { isAllowed: true }, 4: { isAllowed: false } });
    expect(await answersOf(oldLibrary, current, "old-client")).toEqual(expected);
    expect(await answersOf(library, previous, "old-server")).toEqual(expected);
  });
});
