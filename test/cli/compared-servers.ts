import { createTestApi, type TestApi } from "../support/api.ts";
import { createTestDatabase } from "../support/database.ts";
import { testKeyring } from "../support/event-server.ts";
import { importFolder } from "../support/import-space.ts";
import { smallInstallation, spaceContract, writeDump } from "../support/space-dump.ts";
import { type Run, runFaregate } from "./io.ts";

/** Two servers into which one dump was imported. */
export interface ComparedServers {
  now: TestApi;
  /** Runs `faregate compare` between them. */
  compare(...args: string[]): Promise<Run>;
  close(): Promise<void>;
}

/** Imports a dump with so many contracts, of `user 0/ä` and so on, into two databases. */
export async function startComparedServers(contracts: number): Promise<ComparedServers> {
  const space = smallInstallation();
  space.contracts = Array.from({ length: contracts }, (_, index) => spaceContract(`user ${index}/ä`));
  const dump = await writeDump(space);
  const start = async (): Promise<TestApi> => {
    const database = await createTestDatabase();
    const { code, err } = await importFolder(dump.folder, database.url);
    if (code !== 0) throw new Error(err);
    return createTestApi({ database, resources: { keyring: await testKeyring() } });
  };
  const [old, now] = [await start(), await start()];
  await dump.remove();
  return {
    now,
    compare: (...args) =>
      runFaregate(
        ["compare", "--old", "http://old.example", "--new", "http://new.example", ...args],
        {},
        {
          now: () => new Date("2025-06-15T10:00:00.000Z"),
          fetch: async (input, init) => {
            const { hostname, href } = new URL(String(input));
            const server = { "old.example": old, "new.example": now }[hostname];
            if (server === undefined) throw new Error("no such server");
            return server.app.request(href, init);
          },
        },
      ),
    close: async () => {
      await Promise.all([old.close(), now.close()]);
    },
  };
}
