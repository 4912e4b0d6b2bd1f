import { afterAll, beforeAll, expect, it } from "vitest";
import { loadSnapshots } from "../../src/db/queries/contract-snapshots.ts";
import { readBalances } from "../../src/db/queries/current-levels.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, tasker, upload } from "../support/contracting.ts";

/* One contract is read by a statement of its own, several by a function. Both say the same. */

const USERS = ["fresh", "used", "holding", "alerted", "alerted-holding"];

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

it("a contract that is read alone has the same balances as among others", async () => {
  const { key } = api.callers.all;
  await upload(api, key, tasker({ maxTasks: 10 }));
  for (const userId of USERS) await contract(api, key, userId);
  for (const userId of USERS.slice(1)) await consume(api, key, userId, { "tasker-maxTasks": 1 });
  for (const userId of ["alerted", "alerted-holding"]) await consume(api, key, userId, { "tasker-maxTasks": 7 });
  for (const userId of ["holding", "alerted-holding"]) {
    const path = `/features/${userId}/tasker-board?hold=PT10M`;
    expect((await api.call("POST", path, { key, body: { "tasker-maxTasks": 1 } })).status).toBe(200);
  }
  const { client, db } = api.database.connection;
  const found = await loadSnapshots(db, api.callers.organizationId, USERS);
  // Balances with another version are read; those with the cached one are not.
  const cached = [...found.values()].map(({ contractId, version, levels }) => ({
    contractId,
    version,
    levels: levels.map((level) => ({ ...level, version: "0", consumed: -1 })),
  }));
  const together = await readBalances(client, cached);
  expect(together.size).toBe(USERS.length);
  for (const one of cached) {
    expect(await readBalances(client, [one])).toEqual(new Map([[one.contractId, together.get(one.contractId)]]));
  }
  for (const { contractId, levels } of found.values()) expect(together.get(contractId)).toEqual(levels);
  const thresholds = await client`select 1 from usage_levels where alerted_threshold is not null`;
  expect(thresholds).toHaveLength(2);
});
