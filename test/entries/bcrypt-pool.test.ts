import { compare, hash } from "bcryptjs";
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBcryptPool } from "../../src/entries/platform/bcrypt-pool.ts";

const pool = openBcryptPool(2);
let imported: string;
beforeAll(async () => {
  imported = await hash("imported-secret", 12);
});
afterAll(() => pool.close());

/** Share of the time for which the event loop was busy, by `eventLoopUtilization`. */
async function busyShareOf(work: () => Promise<unknown>): Promise<number> {
  const before = performance.eventLoopUtilization();
  await work();
  return performance.eventLoopUtilization(before).utilization;
}

test("a thread compares passwords with bcrypt hashes", async () => {
  expect(await pool.compare("imported-secret", imported)).toBe(true);
  expect(await pool.compare("another-secret", imported)).toBe(false);
});

test("the event loop is idle during a comparison, unlike with slices", async () => {
  // Other load of the machine can only make the event loop look busier.
  const shares: number[] = [];
  for (let run = 0; run < 3; run += 1) shares.push(await busyShareOf(() => pool.compare("imported-secret", imported)));
  const inThread = Math.min(...shares);
  const inSlices = await busyShareOf(() => compare("imported-secret", imported));
  expect(inThread).toBeLessThan(inSlices / 2);
});
