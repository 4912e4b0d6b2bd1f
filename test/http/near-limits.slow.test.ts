import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { fillLimitValues } from "../../src/operations/numeric-limits.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, type ContractBody, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import "../support/property-seed.ts";

/*
 * Three computations of who is near a limit agree: by the server from the limits in its balances, by the server from the limits of
 * all configurations (for balances that lack theirs), and here from what the contracts show.
 */

interface Override {
  name: string;
  effective: number;
  from: string;
  until: string | null;
}
type Shown = ContractBody & { overrides?: Override[] };
interface Near {
  total: number;
  users: { userId: string; limitName: string; consumed: number; limit: number }[];
}

const DAY = 86_400_000;
const START = Date.parse("2025-06-15T10:00:00.000Z");
const USERS = ["ann", "ben", "cem", "dee"];
const SHARES = [0.05, 0.25, 0.5, 0.75, 0.8, 0.99, 1];

let api: TestApi;
let key: string;
let now: number;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
});
afterAll(() => api.close());
beforeEach(() => setNow(START));

const setNow = (moment: number) => api.setNow(new Date((now = moment)));

/** A change of contracts, balances, limits or time. The server may refuse it. */
type Change =
  | { kind: "create" | "novate"; user: string; version: string; plan: string; extra: number }
  | { kind: "set" | "consume"; user: string; limit: string; amount: number }
  | { kind: "override"; user: string; limit: string; mode: string; value: number; days: [number, number | null] }
  | { kind: "remove"; user: string; limit: string }
  | { kind: "move"; plan: string }
  | { kind: "reset"; user: string }
  | { kind: "wait"; days: number };

const user = fc.constantFrom(...USERS);
const limit = fc.constantFrom("maxTasks", "maxExports");
const subscription = {
  user,
  version: fc.constantFrom("1.0.0", "2.0.0"),
  plan: fc.constantFrom("BASIC", "PRO"),
  extra: fc.constantFrom(0, 0, 2),
};
const changes: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ kind: fc.constant("create" as const), ...subscription }),
  fc.record({ kind: fc.constant("novate" as const), ...subscription }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("set" as const),
      user,
      limit,
      amount: fc.constantFrom(0, 4, 5, 8, 15.5, 16, 20, 41),
    }),
  },
  fc.record({ kind: fc.constant("consume" as const), user, limit, amount: fc.constantFrom(1, 2, 3.25) }),
  fc.record({
    kind: fc.constant("override" as const),
    user,
    limit,
    mode: fc.constantFrom("set", "add"),
    value: fc.constantFrom(0, 6, 20, 100_000_000),
    days: fc.constantFrom<[number, number | null]>([0, null], [0, 2], [3, null], [3, 9]),
  }),
  fc.record({ kind: fc.constant("remove" as const), user, limit }),
  fc.record({ kind: fc.constant("move" as const), plan: fc.constantFrom("BASIC", "PRO") }),
  fc.record({ kind: fc.constant("reset" as const), user }),
  fc.record({ kind: fc.constant("wait" as const), days: fc.constantFrom(1, 4, 31) }),
);

async function apply(change: Change): Promise<void> {
  const put = (path: string, body: unknown) => api.call("PUT", path, { key, body });
  if (change.kind === "create" || change.kind === "novate") {
    const maps = {
      contractedServices: { tasker: change.version },
      subscriptionPlans: { tasker: change.plan },
      subscriptionAddOns: change.extra === 0 ? {} : { tasker: { extraTasks: change.extra } },
    };
    const userContact = { userId: change.user, username: change.user };
    if (change.kind === "novate") await put(`/contracts/${change.user}`, maps);
    else await api.call("POST", "/contracts", { key, body: { userContact, ...maps } });
  } else if (change.kind === "set") {
    await put(`/contracts/${change.user}/usageLevels`, { tasker: { [change.limit]: change.amount } });
  } else if (change.kind === "consume") {
    await consume(api, key, change.user, { [`tasker-${change.limit}`]: change.amount }, "tasker-bulk");
  } else if (change.kind === "reset") {
    await put(`/contracts/${change.user}/usageLevels?reset=true`, {});
  } else if (change.kind === "override") {
    const [from, until] = change.days.map((day) => (day === null ? null : new Date(now + day * DAY).toISOString()));
    const body = { mode: change.mode, value: change.value, reason: "Agreed", from, until };
    await put(`/contracts/${change.user}/overrides/tasker/usageLimits/${change.limit}`, body);
  } else if (change.kind === "remove") {
    await api.call("DELETE", `/contracts/${change.user}/overrides/tasker/usageLimits/${change.limit}`, { key });
  } else if (change.kind === "move") {
    const body = { pricingVersion: "2.0.0", subscriptionPlan: change.plan };
    await api.call("POST", "/services/tasker/novations", { key, body });
  } else if (change.kind === "wait") setNow(now + change.days * DAY);
}

/** The limits that the plans of `tasker` grant. */
function grantedOf({ contractedServices, subscriptionPlans, subscriptionAddOns }: Shown): Record<string, number> {
  const isPro = subscriptionPlans["tasker"] === "PRO";
  const pro = contractedServices["tasker"] === "2.0.0" ? 40 : 20;
  const extra = subscriptionAddOns["tasker"]?.["extraTasks"] ?? 0;
  return { maxTasks: (isPro ? pro : 5) + 10 * extra, maxExports: 10 };
}

/** The limits that a contract has consumed at least this share of, nearest first. */
function nearOf(shown: Shown, share: number) {
  const granted = grantedOf(shown);
  const near = Object.entries(shown.usageLevels["tasker"] ?? {}).flatMap(([name, { consumed, resetTimeStamp }]) => {
    const override = shown.overrides?.find(
      (each) =>
        each.name === name && Date.parse(each.from) <= now && (each.until === null || Date.parse(each.until) > now),
    );
    const value = override?.effective ?? granted[name] ?? Number.NaN;
    const isDue = resetTimeStamp !== undefined && Date.parse(resetTimeStamp) < now;
    if (value >= 100_000_000 || consumed === 0 || isDue || consumed < value * share) return [];
    return [{ name, consumed, value, used: value === 0 ? 1 : consumed / value }];
  });
  return near.toSorted((a, b) => b.used - a.used || (a.name < b.name ? -1 : 1));
}

async function expected(share: number) {
  const contracts = (await api.call<Shown[]>("GET", "/contracts?limit=100", { key })).body;
  const near = contracts.map((shown) => ({ userId: shown.userContact["userId"], limits: nearOf(shown, share) }));
  return near
    .filter(({ limits }) => limits.length > 0)
    .map(({ userId, limits: [first] }) => ({
      userId,
      limitName: first?.name,
      consumed: first?.consumed,
      limit: first?.value,
    }));
}

async function answered(share: number) {
  const { organizationId, evaluator } = api.callers;
  const overview = await api.call<{ near: Near }>("GET", `/organizations/${organizationId}/overview?near=${share}`, {
    key: evaluator.key,
  });
  const listed = await api.call<Shown[]>("GET", `/contracts?near=${share}&limit=100`, { key });
  expect(overview.body.near.total).toBe(listed.body.length);
  expect(listed.headers.get("x-total-count")).toBe(String(listed.body.length));
  expect(listed.body.map(({ userContact }) => userContact["userId"])).toEqual(
    overview.body.near.users.map(({ userId }) => userId).sort(),
  );
  return overview.body.near.users
    .map(({ userId, limitName, consumed, limit: value }) => ({ userId, limitName, consumed, limit: value }))
    .toSorted((a, b) => (a.userId < b.userId ? -1 : 1));
}

const storedLimits = () =>
  api.database.connection.client`select contract_id, service_id, limit_name, limit_value, used_tenths
    from usage_levels order by contract_id, service_id, limit_name`;

test("who is near a limit is the same from stored limits, from all configurations and from what contracts show", async () => {
  await upload(api, key, tasker(), tasker({ version: "2.0.0", maxTasks: 40 }));
  let near = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(changes, { minLength: 12, maxLength: 25 }), async (list) => {
      await api.call("DELETE", "/contracts", { key });
      setNow(START);
      for (const name of USERS)
        await contract(api, key, name, name === "ann" ? { subscriptionPlans: { tasker: "BASIC" } } : {});
      for (const change of list) await apply(change);
      const before = [];
      for (const share of SHARES) {
        const answer = await answered(share);
        expect(answer).toEqual(await expected(share));
        before.push(answer);
        near += answer.length;
      }
      await expectBalancesMatchLedger(api.database);
      const stored = await storedLimits();
      await api.database.connection.client`update usage_levels set limit_value = null`;
      const computed = [];
      for (const share of SHARES) computed.push(await answered(share));
      expect(computed).toEqual(before);
      await fillLimitValues(api.resources);
      expect(await storedLimits()).toEqual(stored);
    }),
    { numRuns: 12 },
  );
  // Otherwise the cases compare empty answers.
  expect(near).toBeGreaterThan(100);
}, 120_000);
