import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { createTestDatabase } from "../support/database.ts";
import { testKeyring } from "../support/event-server.ts";
import { importFolder } from "../support/import-space.ts";
import { smallInstallation, spaceContract, spaceKey, writeDump } from "../support/space-dump.ts";
import { runFaregate } from "./io.ts";

/* `faregate compare` between two servers into which one dump was imported. Source: files-and-migration, case 29. */

const key = spaceKey("org", "management");
const servers: Record<string, TestApi> = {};

beforeAll(async () => {
  const space = smallInstallation();
  space.contracts = Array.from({ length: 120 }, (_, index) => spaceContract(`user ${index}/ä`));
  const dump = await writeDump(space);
  for (const name of ["old", "new"]) {
    const database = await createTestDatabase();
    expect((await importFolder(dump.folder, database.url)).code).toBe(0);
    servers[name] = await createTestApi({ database, resources: { keyring: await testKeyring() } });
  }
  await dump.remove();
}, 120_000);
afterAll(() => Promise.all(Object.values(servers).map((server) => server.close())));

const compare = (...args: string[]) =>
  runFaregate(
    ["compare", "--old", "http://old.example", "--new", "http://new.example", ...args],
    {},
    {
      now: () => new Date("2025-06-15T10:00:00.000Z"),
      fetch: async (input, init) => {
        const url = new URL(String(input));
        const server = servers[url.hostname.split(".")[0] ?? ""];
        if (server === undefined) throw new Error("no such server");
        return server.app.request(url.href, init);
      },
    },
  );

it("exits with 0 right after the import, for a sample and for all contracts", { timeout: 120_000 }, async () => {
  expect(await compare("--key", key, "--sample", "5")).toMatchObject({
    code: 0,
    err: "",
    out: "5 users compared.\nNo difference is unexplained.\n",
  });
  expect((await compare("--key", key, "--key", spaceKey("org", "all"), "--sample", "0")).out).toMatch(
    /^240 users compared\.\n/,
  );
});

it("exits with 1 after a level was changed on one side, and names user and limit", { timeout: 60_000 }, async () => {
  const user = "user 7/ä";
  const path = `/contracts/${encodeURIComponent(user)}/usageLevels`;
  const body = { tasker: { maxTasks: 1 } };
  expect((await servers["new"]?.call("PUT", path, { key, body }))?.status).toBe(200);
  const { code, out } = await compare("--key", key, "--sample", "0");
  expect(code).toBe(1);
  expect(out).toContain(`${user} contract usageLevels.tasker.maxTasks.consumed: 650 in SPACE, 651 here\n`);
});

it("exits with 2 and the server's sentence for a wrong key and for one of scope EVALUATION", async () => {
  const wrong = await compare("--key", "org_wrong");
  expect(wrong.code).toBe(2);
  expect(wrong.err).toMatch(/^faregate: http:\/\/old\.example refuses the key: \S+/);
  const evaluation = await compare("--key", spaceKey("org", "evaluation"));
  expect(evaluation).toMatchObject({ code: 2, err: expect.stringContaining("(EVALUATION) does not have permission") });
  expect((await compare("--key", key, "--new", "http://nowhere.example")).err).toContain("cannot be reached");
});
