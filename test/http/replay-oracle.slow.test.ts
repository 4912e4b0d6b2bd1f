import { sql } from "drizzle-orm";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ContractReplay } from "../../src/core/change/replay/contract.ts";
import { type ContractRecord, placementKey } from "../../src/core/change/replay/record.ts";
import { configurationOf } from "../../src/core/change/configuration.ts";
import { finish } from "../../src/core/steps.ts";
import { readReplayRecords } from "../../src/db/queries/replay.ts";
import { compiledPricings } from "../../src/operations/subscriptions.ts";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import "../support/property-seed.ts";

/*
 * The oracle of replays: random contracts and calls under a pricing A, replayed onto a pricing B, against a server on which the same calls
 * were made under B. Calls that A denied are not made again: the ledger does not know them. Source: contract replay §4.
 */

const START = Date.parse("2025-06-15T10:00:00.000Z");
const HOUR = 3_600_000;

let api: TestApi;
/** The organizations of both servers. Each run has its own version and contract there. */
let organizations: readonly [TestOrganization, TestOrganization];
let runs = 0;
beforeAll(async () => {
  api = await createTestApi();
  const user = await api.newUser();
  organizations = [await api.newOrganization(user), await api.newOrganization(user)];
});
afterAll(() => api.close());

interface Terms {
  tasks: number;
  unit: "DAY" | "MONTH";
  jobs: number;
  carries: boolean;
  /** Budgets of the pricing, by name. */
  budgets: Record<string, Budget>;
}

interface Budget {
  spender: string | null;
  amount: number;
  window: unknown;
  mode: "stop" | "warn";
}
const WINDOWS = [
  "period",
  "life",
  { value: 1, unit: "DAY", anchor: "utc" },
  { value: 12, unit: "HOUR", anchor: "first" },
  { value: 1, unit: "WEEK", anchor: "contract" },
];
/** Budgets of more than `room`. */
const budgetAbove = (room: number): fc.Arbitrary<Budget> =>
  fc.record({
    spender: fc.constantFrom(null, "*", "ada", "*/*"),
    amount: fc.integer({ min: room + 1, max: room + 6 }),
    window: fc.constantFrom(...WINDOWS),
    mode: fc.constantFrom("stop", "stop", "stop", "warn"),
  });
const termsUpTo = (
  tasks: number,
  jobs: number,
  { room, minKeys }: { room: number; minKeys: number },
): fc.Arbitrary<Terms> =>
  fc.record({
    tasks: fc.integer({ min: 2, max: tasks }),
    unit: fc.constantFrom("DAY", "MONTH"),
    jobs: fc.integer({ min: 2, max: jobs }),
    carries: fc.boolean(),
    budgets: fc.dictionary(fc.constantFrom("each", "other", "third"), budgetAbove(room), { minKeys, maxKeys: 2 }),
  });

const customOf = ({ carries, budgets }: Pick<Terms, "carries" | "budgets">) => ({
  ...(carries ? { rollover: { tasks: { max: 6, periods: 2 } } } : {}),
  budgets: Object.fromEntries(Object.entries(budgets).map(([name, each]) => [name, { limit: "tasks", ...each }])),
});

const pricingOf = ({ tasks, unit, jobs, ...custom }: Terms, version: string) => `saasName: Tool
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-01-01"
currency: EUR
custom: ${JSON.stringify({ faregate: customOf(custom) })}
features:
  board: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['board'] && subscriptionContext['tasks'] < pricingContext['usageLimits']['tasks']" }
  run: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['tasks'] <= pricingContext['usageLimits']['tasks'] && subscriptionContext['jobs'] < pricingContext['usageLimits']['jobs']" }
usageLimits:
  tasks: { valueType: NUMERIC, defaultValue: ${tasks}, unit: task, type: RENEWABLE, period: { value: 1, unit: ${unit} } }
  jobs: { valueType: NUMERIC, defaultValue: ${jobs}, unit: job, type: NON_RENEWABLE, trackable: true }
plans:
  FREE: { price: 0, unit: month, features: null, usageLimits: null }
  PRO: { price: 6, unit: month, features: null, usageLimits: { tasks: { value: ${tasks * 2} } } }
addOns: null
`;

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
const step = fc.record({
  after: fc.oneof(fc.integer({ min: 1, max: 2 * HOUR }), fc.integer({ min: 1, max: 30 * HOUR })),
  amount: fc.integer({ min: 0, max: 3 }),
  kind: fc.constantFrom(
    "call",
    "call",
    "call",
    "run",
    "batch",
    "hold",
    "put",
    "reset",
    "revert",
    "block",
    "override",
    "plan",
    "budget",
  ),
  flag: fc.boolean(),
  spender: fc.constantFrom(undefined, "ada", "ada/run", "bob"),
  budget: budgetAbove(6),
});

/** One of both servers: an organization with the service and one contract. */
interface Server extends TestOrganization {
  userId: string;
  version: string;
  holds: Map<number, string | undefined>;
}

async function open(organization: TestOrganization, terms: Terms): Promise<Server> {
  const [version, userId] = [`1.0.${runs}`, `ada-${runs}`];
  await upload(api, organization.key, pricingOf(terms, version));
  await contract(api, organization.key, userId, {
    contractedServices: { tool: version },
    subscriptionPlans: { tool: "FREE" },
    subscriptionAddOns: {},
    billingPeriod: { autoRenew: true, renewalDays: 365 },
  });
  return { ...organization, userId, version, holds: new Map() };
}

const amountsOf = (feature: string, amount: number) =>
  feature === "run" ? { "tool-tasks": amount, "tool-jobs": 1 } : { "tool-tasks": amount };

/** Makes the call of a step. Returns true if it was granted, undefined where nothing is decided. */
async function call(server: Server, step: Step, index: number): Promise<boolean | undefined> {
  const { key, userId, version } = server;
  const { kind, amount, flag, spender } = step;
  const spends = spender === undefined ? "" : `spender=${encodeURIComponent(spender)}`;
  const answer = async (method: "POST" | "PUT" | "DELETE", path: string, body?: object) => {
    const { status, body: answered } = await api.call<{
      eval: boolean;
      hold?: { id: string } | null;
      items: { verdict: string }[];
    }>(method, path, { key, ...(body === undefined ? {} : { body }) });
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answered)}`);
    return answered;
  };
  const contractPath = `/contracts/${userId}`;
  if (kind === "call" || kind === "run") {
    const feature = kind === "run" ? "run" : "board";
    return (await answer("POST", `/features/${userId}/tool-${feature}?${spends}`, amountsOf(feature, amount))).eval;
  }
  if (kind === "batch") {
    const item = {
      key: `${userId} ${index}`,
      userId,
      featureId: "tool-board",
      amounts: amountsOf("board", amount),
      spender,
    };
    return (await answer("POST", "/usage", [item])).items[0]?.verdict === "counted";
  }
  if (kind === "hold") {
    const path = `/features/${userId}/tool-board?hold=PT1M${flag ? "&onExpiry=consume" : ""}&${spends}`;
    const taken = await answer("POST", path, amountsOf("board", amount));
    server.holds.set(index, taken.hold?.id);
    return taken.eval;
  }
  if (kind === "put") await answer("PUT", `${contractPath}/usageLevels`, { tool: { tasks: amount } });
  if (kind === "budget") {
    const path = `${contractPath}/budgets/${flag ? "own" : "more"}`;
    await answer("PUT", path, { limit: "tool-tasks", ...step.budget });
  }
  if (kind === "reset") await answer("PUT", `${contractPath}/usageLevels?reset=true&renewableOnly=false`);
  if (kind === "revert") await answer("POST", `/features/${userId}/tool-board?revert=true`);
  if (kind === "block") {
    const expiresAt = flag ? { expiresAt: new Date(api.resources.now().getTime() + 40 * HOUR).toISOString() } : {};
    await answer("POST", `${contractPath}/blocks`, {
      service: "tool",
      limit: "tasks",
      amount: amount + 1,
      reason: "given",
      ...expiresAt,
    });
  }
  if (kind === "override") {
    const value = { value: amount, mode: "add", reason: "agreed" };
    await answer("PUT", `${contractPath}/overrides/tool/usageLimits/tasks`, value);
  }
  if (kind === "plan") {
    await answer("PUT", contractPath, {
      contractedServices: { tool: version },
      subscriptionPlans: { tool: flag ? "PRO" : "FREE" },
      subscriptionAddOns: {},
    });
  }
  return undefined;
}

/** Settles or leaves the hold of a step, at its later half. Returns true if something was counted. */
async function endHold(server: Server, { amount, flag }: Step, index: number): Promise<boolean> {
  const id = server.holds.get(index);
  if (id === undefined) return false;
  // An expiry that counts nothing writes no movement.
  if (flag) return amount > 0;
  const { status } = await api.call("POST", `/holds/${id}`, {
    key: server.key,
    body: amountsOf("board", Math.max(0, amount - 1)),
  });
  expect(status).toBe(200);
  return amount > 1;
}

async function recordOf({ id, userId }: Server, to: Date): Promise<{ record: ContractRecord; serviceId: string }> {
  const rows = await api.resources.db.execute<{ contract: string; service: string }>(sql`
    select c.id as contract, s.id as service from contracts c join services s on s.organization_id = c.organization_id
    where c.organization_id = ${id} and c.user_id = ${userId}`);
  const [{ contract: contractId, service: serviceId } = { contract: "", service: "" }] = rows;
  const filter = { organizationId: id, serviceId, from: new Date(START), to };
  const [read] = await readReplayRecords(api.resources.db, filter, [contractId]);
  return { record: JSON.parse(read?.text ?? "{}") as ContractRecord, serviceId };
}

test("a replay ends with the balances and denials of a server that had the target", { timeout: 240_000 }, async () => {
  let allDenied = 0;
  let deniedByBudget = 0;
  await fc.assert(
    fc.asyncProperty(
      termsUpTo(12, 20, { room: 10, minKeys: 0 }),
      termsUpTo(4, 6, { room: 0, minKeys: 1 }),
      fc.array(step, { minLength: 10, maxLength: 30 }),
      async (before, after, steps) => {
        api.setNow(new Date(START));
        runs += 1;
        const [ofActual, ofOracle] = organizations;
        const [actual, oracle] = await Promise.all([open(ofActual, before), open(ofOracle, after)]);
        let now = START;
        let denied = 0;
        for (const [index, each] of steps.entries()) {
          // An odd number of milliseconds, so that no call hits a boundary of both at once.
          now += each.after | 1;
          api.setNow(new Date(now));
          const isDecided = ["call", "run", "batch", "hold"].includes(each.kind);
          if (!isDecided) {
            await Promise.all([call(actual, each, index), call(oracle, each, index)]);
            continue;
          }
          const granted = await call(actual, each, index);
          if (granted === false) continue;
          const replayed = await call(oracle, each, index);
          if (each.kind === "hold") {
            api.setNow(new Date((now += 30_000)));
            const [counts, isCounted] = await Promise.all([actual, oracle].map((one) => endHold(one, each, index)));
            api.setNow(new Date((now += 60_000)));
            if (counts === true && replayed === false && (each.flag || !isCounted)) denied += 1;
          } else if (granted === true && replayed === false) denied += 1;
        }
        const to = new Date((now += 1_000));
        api.setNow(to);
        // Writes what is due on both.
        const levels = async ({ key, userId }: Server) => {
          await api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tool: { tasks: 0 } } });
          const { body } = await api.call<{ usageLevels: { tool: Record<string, { consumed: number }> } }>(
            "GET",
            `/contracts/${userId}`,
            { key },
          );
          return Object.fromEntries(
            Object.entries(body.usageLevels.tool).map(([name, level]) => [name, level.consumed]),
          );
        };
        const [, expected] = await Promise.all([levels(actual), levels(oracle)]);
        const { record, serviceId } = await recordOf(actual, to);
        const pricing = async (server: Server) => {
          const { record: of } = await recordOf(server, to);
          const [service] = of.terms[0]?.services ?? [];
          const rows = [{ pricingId: service?.pricingId ?? "", hash: service?.hash ?? "" }];
          const compiled = (await compiledPricings({ db: api.resources.db, resources: api.resources }, rows)).get(
            service?.hash ?? "",
          );
          if (compiled === undefined) throw new Error("the pricing is gone");
          return { compiled, hash: service?.hash ?? "" };
        };
        const [had, target] = await Promise.all([pricing(actual), pricing(oracle)]);
        const services = record.terms.flatMap((each) => each.services);
        const found = { denied: 0, byBudget: 0 };
        const replay = new ContractReplay(
          {
            serviceId,
            target: target.compiled,
            pricings: new Map([[had.hash, had.compiled]]),
            placements: new Map(
              services.map((service) => [
                placementKey(service),
                { group: 0, target: configurationOf(service.plan ?? undefined, {}), price: { then: 0, replayed: 0 } },
              ]),
            ),
            from: START,
            to: to.getTime(),
          },
          record,
          {
            counted: () => {},
            denied: ({ reason }) => {
              found.denied += 1;
              if (reason === "BUDGET_REACHED") found.byBudget += 1;
            },
          },
        );
        finish(replay.run());
        const balances = Object.fromEntries(
          [...replay.balances.levels.values()].map(({ limitName, consumed }) => [limitName, consumed]),
        );
        allDenied += denied;
        deniedByBudget += found.byBudget;
        expect({ balances, denied: found.denied }).toEqual({ balances: expected, denied });
      },
    ),
    { numRuns: 12 },
  );
  expect(allDenied).toBeGreaterThan(10);
  expect(deniedByBudget).toBeGreaterThan(3);
});
