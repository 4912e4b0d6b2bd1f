import { expect, it } from "vitest";
import { spaceKey } from "../support/space-dump.ts";
import { startComparedServers } from "./compared-servers.ts";

it("all contracts of several pages and of two keys are equal right after the import", async () => {
  const servers = await startComparedServers(120);
  const keys = ["--key", spaceKey("org", "management"), "--key", spaceKey("org", "all")];
  const { code, out } = await servers.compare(...keys, "--sample", "0");
  expect([code, out]).toEqual([0, "240 users compared.\nNo difference is unexplained.\n"]);
  await servers.close();
}, 120_000);
