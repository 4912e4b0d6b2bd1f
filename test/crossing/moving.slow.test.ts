import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exportFolder, readManifest, writeManifest } from "../../src/entries/platform/organization-folder.ts";
import {
  exportOrganization,
  freezeOrganization,
  importOrganization,
  leaveOrganization,
  thawOrganization,
} from "../../src/operations/moving.ts";
import { schemaVersion } from "../../src/db/migrate.ts";
import type { TestApi } from "../support/api.ts";
import { tasker } from "../support/contracting.ts";
import { expectAgreement, expectCleanLedger } from "./invariants.ts";
import { step } from "./operations.ts";
import { createWorld, openServers, type Servers, World } from "./world.ts";

/* An organization with a history moves to another instance: everything that can be asked has the same answer there. */

const ADDRESS = "https://two.example.com";
const STEPS = Number(process.env["MOVING_STEPS"] ?? 60);

let here: Servers;
let there: Servers;
let folder: string;
beforeAll(async () => {
  [here, there] = [await openServers(), await openServers()];
  folder = mkdtempSync(join(tmpdir(), "faregate-moving-"));
});
afterAll(async () => {
  await here.close();
  await there.close();
  rmSync(folder, { recursive: true });
});

/** Damages of a file on the way. */
const DAMAGES: Record<string, (file: string) => void> = {
  changed: (file) => writeFileSync(file, readFileSync(file, "utf8").replace("linus", "lines")),
  cut: (file) => writeFileSync(file, readFileSync(file, "utf8").split("\n").slice(1).join("\n")),
  empty: (file) => writeFileSync(file, ""),
  lost: (file) => rmSync(file),
};

/** Everything that keys can ask about the organization and its end users. */
async function answers(world: World): Promise<Record<string, unknown>> {
  const asked = ["/contracts", "/services", "/scheduled", "/overrides", "/usage?by=feature"];
  for (const userId of world.users)
    asked.push(
      ...["", "/holds", "/blocks", "/balances", "/usage", "/scheduled", "/overrides"].map(
        (end) => `/contracts/${userId}${end}`,
      ),
    );
  const found: Record<string, unknown> = {};
  for (const path of asked) found[path] = await world.read(0, "GET", path);
  for (const userId of world.users) found[userId] = await world.read(0, "POST", `/features/${userId}?details=true`);
  return found;
}

const exportNow = async (api: TestApi, world: World, name: string) => {
  const target = join(folder, name);
  mkdirSync(target);
  const { db, client } = api.database.connection;
  const given = { organizationId: world.organizationId, now: world.servers.now, schema: await schemaVersion(client) };
  writeManifest(target, await exportOrganization(db, exportFolder(target), given));
  return target;
};

const importInto = async (servers: Servers, from: string, takesAccounts = false) => {
  const { db, keyring } = servers.api.resources;
  const schema = await schemaVersion(servers.api.database.connection.client);
  return importOrganization({ db, keyring }, exportFolder(from), {
    manifest: readManifest(from),
    schema,
    takesAccounts,
  });
};

/** Runs steps of the crossing test, and checks after each. */
async function live(world: World, seed: number): Promise<void> {
  for (const { run } of fc.sample(step, { numRuns: STEPS, seed })) {
    await run(world);
    for (const userId of world.users) await expectAgreement(world, userId);
    await world.pass(1000, true);
  }
}

test("an organization moves with its history, its balances and its keys, and nothing is lost or counted twice", async () => {
  const world = await createWorld(here);
  await world.upload(tasker(), "1.0.0");
  const contract = async (userId: string) => {
    await world.must("POST", "/contracts", {
      // Node's readline takes this character for the end of a line.
      userContact: { userId, username: userId, firstName: `${userId}\u2028` },
      billingPeriod: { autoRenew: true, renewalDays: 30 },
      contractedServices: { [world.service]: world.versions.at(-1) },
      subscriptionPlans: { [world.service]: "PRO" },
      subscriptionAddOns: {},
    });
    world.users.push(userId);
  };
  await contract("ada");
  await contract("grace");
  await live(world, 1);
  // The history may have ended the contracts of the others.
  await contract("linus");
  const { db } = here.api.database.connection;
  const isFrozen = async () => {
    const { status } = await world.read(1, "POST", `/features/linus/${world.service}-board`, { [world.limit]: 1 });
    return status;
  };

  const { body: invited } = await here.api.call<{ url: string }>(
    "POST",
    `/organizations/${world.organizationId}/invitations`,
    { key: here.api.callers.owner.key, body: { role: "EVALUATOR" } },
  );
  await freezeOrganization(db, world.organizationId, here.now);
  await expect.poll(isFrozen).toBe(503);
  expect((await world.read(0, "DELETE", "/contracts/linus")).status).toBe(503);
  const before = await answers(world);
  const first = await exportNow(here.api, world, "first");

  // A change since the export: it was cancelled meanwhile.
  await thawOrganization(db, world.organizationId);
  await expect.poll(isFrozen).toBe(200);
  const leave = (from: string) =>
    leaveOrganization(db, exportFolder(from), { manifest: readManifest(from), to: ADDRESS });
  await expect(leave(first)).rejects.toThrow(
    /^The organization has changed since the export \(\w+\): export it again$/,
  );

  await freezeOrganization(db, world.organizationId, here.now);
  await expect.poll(isFrozen).toBe(503);
  const asked = await answers(world);
  expect(asked).not.toEqual(before);
  const second = await exportNow(here.api, world, "second");
  there.now = here.now;
  there.api.setNow(there.now);
  for (const [name, change] of Object.entries(DAMAGES)) {
    const damaged = join(folder, name);
    cpSync(second, damaged, { recursive: true });
    change(join(damaged, "contracts.jsonl"));
    await expect(importInto(there, damaged, true)).rejects.toThrow(
      /^The file of contracts is not as it was exported: copy the folder again$/,
    );
  }
  await expect(importInto(there, second)).rejects.toThrow(
    /^The account \S+ exists on this instance: --accounts existing /,
  );
  const { accounts } = await importInto(there, second, true);
  expect(accounts).toContain("owner");
  await expect(importInto(there, second, true)).rejects.toThrow(/ is on this instance already$/);

  const arrived = new World(there, {
    key: world.key,
    otherKey: world.otherKey,
    otherOrganizationId: world.otherOrganizationId,
    organizationId: world.organizationId,
    billingPath: world.billingPath,
  });
  arrived.serviceName = world.serviceName;
  arrived.users.push(...world.users);
  arrived.versions.push(...world.versions);
  expect(await answers(arrived)).toEqual(asked);
  await expectCleanLedger(arrived);

  await leave(second);
  await expect(thawOrganization(db, world.organizationId)).rejects.toThrow(
    `The organization has moved to ${ADDRESS} already: move it back from there`,
  );
  await expect.poll(isFrozen).toBe(410);
  const organization = `/organizations/${world.organizationId}`;
  for (const gone of [
    await world.read(0, "GET", "/contracts"),
    await here.api.call("GET", organization, { key: here.api.callers.owner.key }),
    await here.api.call("GET", `/invitations/${invited.url.split("/").at(-1) ?? ""}`),
  ])
    expect(gone).toMatchObject({
      status: 410,
      body: { error: `The organization has moved to ${ADDRESS}`, details: ADDRESS },
    });
  await expectCleanLedger(world);

  await live(arrived, 2);
  await expectCleanLedger(arrived);

  // And back again.
  await freezeOrganization(there.api.database.connection.db, world.organizationId, there.now);
  const third = await exportNow(there.api, arrived, "third");
  const last = await answers(arrived);
  here.now = there.now;
  here.api.setNow(here.now);
  await importInto(here, third, true);
  await expect.poll(isFrozen).toBeLessThan(410);
  world.users.splice(0, world.users.length, ...arrived.users);
  world.serviceName = arrived.serviceName;
  const returned = await answers(world);
  expect(Object.keys(returned)).toEqual(Object.keys(last));
  await expectCleanLedger(world);
}, 300_000);
