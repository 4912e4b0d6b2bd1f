import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ReplayReport } from "../../src/core/change/replay/report.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, upload } from "../support/contracting.ts";
import { runFaregate } from "./io.ts";

/* `faregate replay`, against the application in process. Source: contract replay §3. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const DRAFT = SAMPLE.replace("value: 200\n", "value: 3\n").replace("price: 6", "price: 9");
const MAY = Date.parse("2025-05-01T00:00:00.000Z");

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
  const { key } = api.callers.all;
  api.setNow(new Date(MAY));
  await upload(api, key, SAMPLE);
  const monthly = { billingPeriod: { autoRenew: true, renewalPeriod: { value: 1, unit: "MONTH" } } };
  await contract(api, key, "ada", monthly);
  await contract(api, key, "bob", { ...monthly, subscriptionPlans: { tasker: "FREE" } });
  for (let call = 0; call < 5; call += 1) {
    api.setNow(new Date(MAY + (call + 1) * 3_600_000));
    await consume(api, key, "ada");
  }
  api.setNow(new Date("2025-06-15T10:00:00.000Z"));
});
afterAll(() => api.close());

const run = (...args: string[]) =>
  runFaregate(
    ["replay", "draft.yml", "--server", "http://faregate.test", "--key", api.callers.all.key, ...args],
    { "draft.yml": DRAFT },
    { fetch: (input, init) => Promise.resolve(api.app.request(new Request(input, init))) },
  );

test("prints for a pull request: the number that matters first, then who and why", async () => {
  const { code, out, err } = await run("--keep-plans");
  expect([code, err]).toEqual([0, ""]);
  expect(out).toBe(`**1 of 2 contracts would have been stopped (50 %)**

Tasker 1.0.0, 2025-05-01 to 2025-06-01: 5 calls that consumed something.

- Denied: 2 calls (2 above a limit; tasker-maxTasks 2)
- Revenue: 6 → 9 EUR (+50 %)
- Paying: 1 more, 0 less, 1 the same

| configuration | becomes | contracts | stopped | first (median) | revenue |
|---|---|---|---|---|---|
| PRO (1.0.0) | PRO | 1 | 1 | 0 days | 6 → 9 |
| FREE (1.0.0) | FREE | 1 | 0 |  | 0 → 0 |

| most affected | denied | first |
|---|---|---|
| ada | 2 | 2025-05-01 |
`);
});

test("prints the report as JSON, for any range", async () => {
  const { out } = await run("--format", "json", "--from", "2025-05-02", "--to", "2025-05-03", "--keep-plans");
  expect(JSON.parse(out) as ReplayReport).toMatchObject({
    from: "2025-05-02T00:00:00.000Z",
    movements: 0,
    contracts: 2,
  });
});

test.each([
  ["denied:50%", 1],
  ["denied:51%", 0],
  ["revenue:-2%", 0],
  ["revenue:50%", 1],
])("--fail-on %s exits with %d", async (bound, code) => {
  expect((await run("--keep-plans", "--fail-on", bound)).code).toBe(code);
});

test.each([
  [["--fail-on", "much"], "faregate: --fail-on must be such as denied:5% or revenue:-2%. Received: much\n"],
  [["--top", "x"], "faregate: --top must be a whole number. Received: x\n"],
  [["--from", "soon"], "faregate: The from field must be an ISO 8601 date\n"],
  [["--service", "Nope"], "faregate: NOT FOUND: Service with name Nope\n"],
])("explains %j", async (args, err) => {
  expect(await run(...args)).toMatchObject({ code: 2, err });
});
