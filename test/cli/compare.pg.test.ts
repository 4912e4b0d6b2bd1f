import { afterAll, beforeAll, expect, it } from "vitest";
import { spaceKey } from "../support/space-dump.ts";
import { type ComparedServers, startComparedServers } from "./compared-servers.ts";

/* `faregate compare` between two servers into which one dump was imported. Source: files-and-migration, case 29. */

const key = spaceKey("org", "management");
let servers: ComparedServers;
beforeAll(async () => {
  servers = await startComparedServers(8);
}, 120_000);
afterAll(() => servers.close());

it("exits with 0 right after the import", async () => {
  expect(await servers.compare("--key", key, "--sample", "5")).toMatchObject({
    code: 0,
    err: "",
    out: "5 users compared.\nNo difference is unexplained.\n",
  });
});

it("exits with 1 after a level was changed on one side, and names user and limit", { timeout: 60_000 }, async () => {
  const user = "user 7/ä";
  const path = `/contracts/${encodeURIComponent(user)}/usageLevels`;
  const body = { tasker: { maxTasks: 1 } };
  expect((await servers.now.call("PUT", path, { key, body })).status).toBe(200);
  const { code, out } = await servers.compare("--key", key, "--sample", "0");
  expect(code).toBe(1);
  expect(out).toContain(`${user} contract usageLevels.tasker.maxTasks.consumed: 650 in SPACE, 651 here\n`);
});

it("exits with 2 and the server's sentence for a wrong key and for one of scope EVALUATION", async () => {
  const wrong = await servers.compare("--key", "org_wrong");
  expect(wrong.code).toBe(2);
  expect(wrong.err).toMatch(/^faregate: http:\/\/old\.example refuses the key: \S+/);
  const evaluation = await servers.compare("--key", spaceKey("org", "evaluation"));
  expect(evaluation).toMatchObject({ code: 2, err: expect.stringContaining("(EVALUATION) does not have permission") });
  expect((await servers.compare("--key", key, "--new", "http://nowhere.example")).err).toContain("cannot be reached");
});
