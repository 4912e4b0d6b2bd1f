import * as fc from "fast-check";
import { expect } from "vitest";
import { tasker } from "../support/contracting.ts";
import type { World } from "./world.ts";

/*
 * The operations of a history. A capability joins the crossing test with its rows here, and with what must hold about it in
 * invariants.ts.
 */

/** One drawn operation. */
export interface Step {
  name: string;
  run(world: World): Promise<void>;
  [fc.toStringMethod](): string;
}

const DAY_MS = 86_400_000;
const picked = <Item>(items: readonly Item[], place: number): Item | undefined => items[place % items.length];
const place = fc.nat(50);
const amount = fc.integer({ min: 0, max: 12 });
const PLANS = ["BASIC", "PRO"] as const;
const addOns = fc.constantFrom<Record<string, number>>(
  {},
  { extraTasks: 2 },
  { extraTasks: 4 },
  { proOnly: 1 },
  { extraTasks: 2, needsTasks: 1 },
  { loner: 1 },
);
const subscription = fc.record({ plan: fc.constantFrom(...PLANS), addOns, version: place });

/** A step about one of the end users so far. */
function about<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  run: (world: World, userId: string, args: Args) => Promise<void>,
): fc.Arbitrary<Step> {
  return once(name, fc.tuple(place, args), async (world, [user, drawn]) => {
    const userId = picked(world.users, user);
    if (userId !== undefined) await run(world, userId, drawn);
  });
}

function once<Args>(name: string, args: fc.Arbitrary<Args>, run: (world: World, args: Args) => Promise<void>) {
  return args.map((drawn): Step => ({ name, run: (world) => run(world, drawn), [fc.toStringMethod]: () => name }));
}

type Subscription = { plan: string; addOns: Record<string, number>; version: number };
const bodyOf = (world: World, { plan, addOns, version }: Subscription) => ({
  contractedServices: { [world.service]: picked(world.versions, version) },
  subscriptionPlans: { [world.service]: plan },
  subscriptionAddOns: { [world.service]: addOns },
});

interface Counted {
  eval: boolean;
  used: Record<string, number> | null;
  limit: Record<string, number> | null;
  hold?: { id: string } | null;
}

/** Strict calls and holds are never granted beyond a limit. */
function expectWithinLimits({ eval: granted, used, limit }: Counted, asked: Record<string, number>): void {
  if (!granted) return;
  for (const [id, amount] of Object.entries(asked))
    if (amount > 0) expect(used?.[id] ?? 0, `usage of ${id}`).toBeLessThanOrEqual(limit?.[id] ?? Infinity);
}

const consumption = [
  about("consume", fc.record({ amount, strict: fc.boolean() }), async (world, userId, { amount, strict }) => {
    const body = { [world.limit]: amount };
    const path = `/features/${userId}/${world.service}-board?strict=${strict}`;
    const answer = await world.call<Counted>("POST", path, body);
    if (answer.status === 200 && strict) expectWithinLimits(answer.body, body);
  }),
  about("consume units", amount, async (world, userId, drafts) => {
    const path = `/features/${userId}/${world.service}-board?strict=true`;
    const answer = await world.call<Counted>("POST", path, { [world.limit]: { draft: drafts } });
    if (answer.status === 200) expectWithinLimits(answer.body, { [world.limit]: drafts / 2 });
  }),
  about("consume two limits", fc.record({ tasks: amount, exports: amount }), async (world, userId, args) => {
    const body = { [world.limit]: args.tasks, [`${world.service}-maxExports`]: args.exports };
    const answer = await world.call<Counted>("POST", `/features/${userId}/${world.service}-bulk?strict=true`, body);
    if (answer.status === 200) expectWithinLimits(answer.body, body);
  }),
  about("revert", fc.boolean(), async (world, userId, latest) => {
    await world.call("POST", `/features/${userId}/${world.service}-board?revert=true&latest=${latest}`);
  }),
  about("set usage", fc.integer({ min: -5, max: 8 }), async (world, userId, change) => {
    await world.call("PUT", `/contracts/${userId}/usageLevels`, { [world.service]: { maxTasks: change } });
  }),
  about("reset usage", fc.boolean(), async (world, userId, renewableOnly) => {
    await world.call("PUT", `/contracts/${userId}/usageLevels?reset=true&renewableOnly=${renewableOnly}`, {});
  }),
  about(
    "record a batch",
    fc.tuple(amount, fc.boolean(), fc.boolean()),
    async (world, userId, [amount, late, again]) => {
      const at = new Date(world.servers.now.getTime() - (late ? 40 * DAY_MS : 60_000)).toISOString();
      const item = {
        userId,
        featureId: `${world.service}-board`,
        amounts: { [world.limit]: amount },
        key: world.nextItem(),
        at,
      };
      await world.call("POST", "/usage?strict=true", again ? [item, item] : [item]);
    },
  ),
];

const holds = [
  about(
    "take a hold",
    fc.record({ amount, minutes: fc.constantFrom(1, 60, 1439), counts: fc.boolean() }),
    async (world, userId, { amount, minutes, counts }) => {
      const body = { [world.limit]: amount };
      const query = `?hold=PT${minutes}M&onExpiry=${counts ? "consume" : "release"}`;
      const answer = await world.call<Counted>("POST", `/features/${userId}/${world.service}-board${query}`, body);
      if (answer.status !== 200) return;
      expectWithinLimits(answer.body, body);
      if (answer.body.hold) world.holds.push(answer.body.hold.id);
    },
  ),
  once("settle a hold", fc.tuple(place, amount), async (world, [which, amount]) => {
    const id = picked(world.holds, which);
    if (id !== undefined) await world.call("POST", `/holds/${id}`, { [world.limit]: amount });
  }),
  once("extend a hold", place, async (world, which) => {
    const id = picked(world.holds, which);
    if (id !== undefined) await world.call("POST", `/holds/${id}?extend=PT2H`);
  }),
  once("release a hold", place, async (world, which) => {
    const id = picked(world.holds, which);
    if (id !== undefined) await world.call("DELETE", `/holds/${id}`);
  }),
  about("lease", amount, async (world, userId, amount) => {
    const body = { for: "PT1M", amounts: { [world.limit]: amount + 1 } };
    const answer = await world.call<{ lease: { id: string; until: string } | null }>(
      "POST",
      `/features/${userId}/${world.service}-board/leases`,
      body,
    );
    if (answer.status !== 201 || answer.body.lease === null) return;
    const { id, until } = answer.body.lease;
    world.leases.push({ id, userId, spent: 0, until: new Date(until) });
  }),
  once("report a lease", fc.tuple(place, fc.integer({ min: 0, max: 3 })), async (world, [which, more]) => {
    const lease = picked(world.leases, which);
    if (lease === undefined) return;
    const spent = lease.spent + more;
    const answer = await world.call<{ lease: { until: string } }>("POST", `/leases/${lease.id}`, {
      spent: { [world.limit]: spent },
      amounts: { [world.limit]: 5 },
      for: "PT2M",
    });
    if (answer.status === 200) Object.assign(lease, { spent, until: new Date(answer.body.lease.until) });
  }),
  once("end a lease", place, async (world, which) => {
    const lease = picked(world.leases, which);
    if (lease === undefined) return;
    const answer = await world.call("DELETE", `/leases/${lease.id}`);
    if (answer.status < 300) lease.until = world.servers.now;
  }),
];

const contracts = [
  once("contract", fc.record({ to: subscription, trial: fc.boolean(), renews: fc.boolean() }), async (world, args) => {
    if (world.users.length === 4) return;
    const userId = `user-${world.users.length + 1}`;
    const trial = args.trial ? { trial: { days: 7, then: "end" } } : {};
    const answer = await world.call("POST", "/contracts", {
      userContact: { userId, username: userId },
      billingPeriod: { autoRenew: args.renews, renewalDays: 30 },
      ...bodyOf(world, args.to),
      ...trial,
    });
    if (answer.status === 201) world.users.push(userId);
  }),
  about("novate", subscription, async (world, userId, to) => {
    await world.call("PUT", `/contracts/${userId}`, bodyOf(world, to));
  }),
  about(
    "override",
    fc.record({
      add: fc.boolean(),
      value: fc.integer({ min: 0, max: 30 }),
      days: fc.constantFrom(undefined, 1, 20),
    }),
    async (world, userId, { add, value, days }) => {
      const until =
        days === undefined ? {} : { until: new Date(world.servers.now.getTime() + days * DAY_MS).toISOString() };
      await world.call("PUT", `/contracts/${userId}/overrides/${world.service}/usageLimits/maxTasks`, {
        mode: add ? "add" : "set",
        value,
        reason: "Agreed with support",
        ...until,
      });
    },
  ),
  about("remove an override", fc.constant(null), async (world, userId) => {
    await world.call("DELETE", `/contracts/${userId}/overrides/${world.service}/usageLimits/maxTasks`);
  }),
  about(
    "schedule",
    fc.record({ to: subscription, days: fc.constantFrom(1, 10) }),
    async (world, userId, { to, days }) => {
      const answer = await world.call<{ id: string }>("POST", `/contracts/${userId}/scheduled`, {
        at: new Date(world.servers.now.getTime() + days * DAY_MS).toISOString(),
        ...bodyOf(world, to),
        reason: "Asked for by mail",
      });
      if (answer.status === 201) world.scheduled.push({ userId, id: answer.body.id });
    },
  ),
  once("cancel a schedule", place, async (world, which) => {
    const change = picked(world.scheduled, which);
    if (change !== undefined) await world.call("DELETE", `/contracts/${change.userId}/scheduled/${change.id}`);
  }),
  about("change the billing period", fc.boolean(), async (world, userId, autoRenew) => {
    await world.call("PUT", `/contracts/${userId}/billingPeriod`, { autoRenew, renewalDays: 30 });
  }),
  about("unlock and buy", fc.constantFrom("board", "darkMode", "bulk"), unlockAndBuy),
];

interface Target {
  pricingVersion: string;
  plan: string | null;
  addOns: Record<string, number>;
}

/** Unlock never names the present configuration while the feature is off, and its target turns the feature on. */
async function unlockAndBuy(world: World, userId: string, feature: string): Promise<void> {
  const id = `${world.service}-${feature}`;
  const asked = await world.call<{ target: Target | null; current: Target | null; reason: string | null }>(
    "POST",
    `/features/${userId}/${id}/unlock`,
    {},
  );
  if (asked.status !== 200) return;
  const { target, current, reason } = asked.body;
  const before = await world.call<Counted>("POST", `/features/${userId}/${id}`);
  expect(reason === "ALREADY_ON", `unlock says ${reason}`).toBe(before.body.eval);
  if (target === null) return;
  expect(target).not.toEqual(current);
  const answer = await world.call("PUT", `/contracts/${userId}`, {
    contractedServices: { [world.service]: target.pricingVersion },
    subscriptionPlans: target.plan === null ? {} : { [world.service]: target.plan },
    subscriptionAddOns: { [world.service]: target.addOns },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  const after = await world.call<Counted>("POST", `/features/${userId}/${id}`);
  expect(after.body.eval, `${id} after its unlock`).toBe(true);
}

const blocks = [
  about(
    "give a block",
    fc.record({
      amount: fc.integer({ min: 1, max: 15 }),
      from: fc.constantFrom(undefined, 1),
      // The shortest ends while holds are open.
      days: fc.constantFrom(undefined, 1 / 48, 2, 40),
    }),
    async (world, userId, { amount, from, days }) => {
      const moment = (after: number | undefined) =>
        after === undefined ? null : new Date(world.servers.now.getTime() + after * DAY_MS).toISOString();
      const answer = await world.call<{ id: string }>("POST", `/contracts/${userId}/blocks`, {
        service: world.service,
        limit: "maxTasks",
        amount,
        from: moment(from),
        expiresAt: moment(days),
        reason: "Top-up",
      });
      if (answer.status === 201) world.blocks.push({ userId, id: answer.body.id });
    },
  ),
  once("revoke a block", place, async (world, which) => {
    const block = picked(world.blocks, which);
    if (block !== undefined) await world.call("DELETE", `/contracts/${block.userId}/blocks/${block.id}`);
  }),
];

const spender = fc.constantFrom("m1", "m2", "team/x", "team/x/run-1", "team/y");

interface Spent extends Counted {
  budgets?: { name: string; used: number; amount: number | null }[];
  /** The budget that denied the call. */
  budget?: { name: string };
}
const spending = (world: World, userId: string, spender: string, query = "") =>
  `/features/${userId}/${world.service}-board?strict=true&explain=true&spender=${encodeURIComponent(spender)}${query}`;

/** A call that is granted leaves every budget within its amount. Of another mode than `stop` there is none here. */
function expectWithinBudgets({ eval: granted, budgets = [] }: Spent): void {
  if (!granted) return;
  for (const { name, used, amount } of budgets)
    expect(used, `used of the budget ${name}`).toBeLessThanOrEqual(amount ?? Infinity);
}

/** A budget shows the call that it denied last, whichever application denied it. */
async function expectDenialShown(world: World, userId: string, who: string, { budget }: Spent): Promise<void> {
  if (budget === undefined) return;
  const path = `/contracts/${userId}/budgets/${budget.name}`;
  // Each application notes its denials before it shows a budget.
  await world.read(0, "GET", path);
  await world.read(1, "GET", path);
  const { status, body } = await world.read<{ denied?: { spender: string | null } | null }>(0, "GET", path);
  if (status === 200) expect(body.denied?.spender, `denied by the budget ${budget.name}`).toBe(who);
}

const budgets = [
  about(
    "put a budget",
    fc.record({
      name: fc.constantFrom("each", "team"),
      amount: fc.integer({ min: 0, max: 20 }),
      unit: fc.constantFrom(null, "draft"),
      window: fc.constantFrom<unknown>("period", "life", { value: 1, unit: "DAY", anchor: "utc" }),
    }),
    async (world, userId, { name, ...terms }) => {
      const body = { limit: world.limit, spender: name === "each" ? "*" : "team/*", ...terms };
      const { status } = await world.call("PUT", `/contracts/${userId}/budgets/${name}`, body);
      expect([200, 201, 400, 404, 422]).toContain(status);
    },
  ),
  about("delete a budget", fc.constantFrom("each", "team"), async (world, userId, name) => {
    await world.call("DELETE", `/contracts/${userId}/budgets/${name}`);
  }),
  about("spend", fc.tuple(spender, fc.integer({ min: 1, max: 8 })), async (world, userId, [who, amount]) => {
    const body = { [world.limit]: amount };
    const answer = await world.call<Spent>("POST", spending(world, userId, who), body);
    if (answer.status !== 200) return;
    expectWithinLimits(answer.body, body);
    expectWithinBudgets(answer.body);
    await expectDenialShown(world, userId, who, answer.body);
  }),
  about("spend units", fc.tuple(spender, fc.integer({ min: 1, max: 8 })), async (world, userId, [who, drafts]) => {
    const answer = await world.call<Spent>("POST", spending(world, userId, who), { [world.limit]: { draft: drafts } });
    if (answer.status !== 200) return;
    expectWithinLimits(answer.body, { [world.limit]: drafts / 2 });
    expectWithinBudgets(answer.body);
    await expectDenialShown(world, userId, who, answer.body);
  }),
  about("take back what a spender spent", spender, async (world, userId, who) => {
    await world.call("POST", spending(world, userId, who, "&revert=true"));
  }),
  about(
    "hold for a spender",
    fc.tuple(spender, fc.integer({ min: 1, max: 8 })),
    async (world, userId, [who, amount]) => {
      const body = { [world.limit]: amount };
      const answer = await world.call<Spent>("POST", spending(world, userId, who, "&hold=PT1H"), body);
      if (answer.status !== 200) return;
      expectWithinLimits(answer.body, body);
      expectWithinBudgets(answer.body);
      await expectDenialShown(world, userId, who, answer.body);
      if (answer.body.hold) world.holds.push(answer.body.hold.id);
    },
  ),
  once("report a hold", fc.tuple(place, amount, amount, fc.boolean()), async (world, [which, spent, more, inUnits]) => {
    const id = picked(world.holds, which);
    if (id === undefined) return;
    const body = { spent: { [world.limit]: inUnits ? { draft: spent } : spent }, amounts: { [world.limit]: more } };
    interface Kept {
      hold: { userId: string; createdAt: string };
    }
    const answer = await world.call<Kept>("POST", `/holds/${id}?keep=true`, body);
    expect([200, 400, 404, 409, 422]).toContain(answer.status);
    if (answer.status !== 200) return;
    const { userId, createdAt } = answer.body.hold;
    const from = new Date(createdAt);
    world.keptHolds.push({ userId, from, until: new Date(from.getTime() + DAY_MS) });
  }),
];

const MEMBERS = ["m1", "m2", "__proto__", "a/b"] as const;
const member = fc.constantFrom(...MEMBERS);

const members = [
  about("put a member", fc.tuple(member, fc.boolean()), async (world, userId, [id, named]) => {
    const path = `/contracts/${userId}/members/${encodeURIComponent(id)}`;
    const { status } = await world.call("PUT", path, named ? { name: id } : {});
    expect([200, 201, 404, 409]).toContain(status);
  }),
  about("remove a member", member, async (world, userId, id) => {
    await world.call("DELETE", `/contracts/${userId}/members/${encodeURIComponent(id)}`);
  }),
  about("replace the members", fc.subarray([...MEMBERS]), async (world, userId, ids) => {
    const answer = await world.call("PUT", `/contracts/${userId}/members`, { data: ids.map((id) => ({ id })) });
    if (answer.status !== 200) return;
    const { body } = await world.read<{ data: { id: string }[] }>(1, "GET", `/contracts/${userId}/members`);
    expect(body.data.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  }),
];

const catalog = [
  once("upload", fc.record({ tasks: fc.integer({ min: 3, max: 40 }) }), async (world, { tasks }) => {
    if (world.versions.length >= 4) return;
    const version = `${world.versions.length + 1}.0.0`;
    const createdAt = `2025-0${world.versions.length + 1}-01`;
    await world.upload(tasker({ name: world.serviceName, version, createdAt, maxTasks: tasks }), version);
  }),
  once("archive", fc.record({ version: place, plan: fc.constantFrom(...PLANS) }), async (world, { version, plan }) => {
    const path = `/services/${world.serviceName}/pricings/${picked(world.versions, version)}`;
    await world.call("PUT", `${path}?availability=archived`, { subscriptionPlan: plan, subscriptionAddOns: {} });
  }),
  once("activate", place, async (world, version) => {
    await world.call(
      "PUT",
      `/services/${world.serviceName}/pricings/${picked(world.versions, version)}?availability=active`,
    );
  }),
  once("novate all", place, novateAll),
  once("rename", fc.constantFrom("Tasker", "Planner"), async (world, name) => {
    const answer = await world.call("PUT", `/services/${world.serviceName}`, { name });
    if (answer.status === 200) world.serviceName = name;
  }),
  once("move the service away and back", fc.constant(null), async (world) => {
    const path = `/services/${world.serviceName}`;
    const away = await world.call("PUT", path, { organizationId: world.otherOrganizationId });
    if (away.status !== 200) return;
    await world.call("PUT", path, { organizationId: world.organizationId }, world.otherKey);
  }),
  once("remove the service", place, async (world, version) => {
    const removed = await world.call("DELETE", `/services/${world.serviceName}`);
    if (removed.status >= 300) return;
    await world.call(
      "PUT",
      `/services/${world.serviceName}/pricings/${picked(world.versions, version)}?availability=active`,
    );
  }),
];

interface Report {
  counts: Record<string, number>;
}

/** The impact of a novation predicts how many contracts lose and win features. */
async function novateAll(world: World, which: number): Promise<void> {
  const pricingVersion = picked(world.versions, which);
  const on = () =>
    Promise.all(
      world.users.map(async (userId) => {
        const both = await Promise.all(
          [false, true].map((server) =>
            world.read<Record<string, boolean>>(0, "POST", `/features/${userId}?server=${server}`),
          ),
        );
        return new Set(
          both.flatMap(({ status, body }, mode) =>
            status === 200 ? Object.keys(body).flatMap((id) => (body[id] === true ? [`${id} ${mode}`] : [])) : [],
          ),
        );
      }),
    );
  const predicted = await world.call<Report>("POST", `/services/${world.serviceName}/impact`, {
    action: "novation",
    pricingVersion,
  });
  if (predicted.status !== 200) return;
  const was = await on();
  const done = await world.call("POST", `/services/${world.serviceName}/novations`, { pricingVersion });
  const is = await on();
  if (done.status >= 300) {
    expect(is).toEqual(was);
    return;
  }
  const lost = was.filter((before, index) => [...before].some((each) => is[index]?.has(each) === false)).length;
  expect(lost, "contracts that lost a feature").toBe(predicted.body.counts["turnedOff"]);
}

type Bought = typeof bought extends fc.Arbitrary<infer T> ? T : never;
const bought = fc.record({
  status: fc.constantFrom("active", "active", "trialing", "past_due", "ended"),
  items: fc.constantFrom(["basic"], ["pro"], ["pro", "tasks"], ["tasks"], ["unknown", "pro"]),
  subscription: fc.constantFrom("first", "second"),
  /** Sent so much later than it was created. */
  lateMs: fc.constantFrom(0, 0, 60_000, DAY_MS),
  isCancelled: fc.boolean(),
});

/** A message about a subscription of a user. */
function messageOf(world: World, userId: string, { status, items, lateMs, ...drawn }: Bought) {
  const at = (milliseconds: number) => new Date(world.servers.now.getTime() + milliseconds).toISOString();
  const periodEnd = at(20 * DAY_MS);
  return {
    id: world.nextItem(),
    type: "subscription",
    createdAt: at(-lateMs),
    data: {
      subscription: `${drawn.subscription}-${userId}`,
      userId,
      status,
      items: items.map((price) => ({ price, quantity: 1 })),
      periodStart: at(-10 * DAY_MS),
      periodEnd,
      endsAt: drawn.isCancelled ? periodEnd : null,
    },
  };
}

const billing = [
  about("message of a payment provider", bought, async (world, userId, drawn) => {
    const { status } = drawn;
    const message = messageOf(world, userId, drawn);
    const answer = await world.message(0, message);
    const isSilent = answer.outcome === "applied" || answer.outcome === "unchanged";
    expect(answer.reason === null, JSON.stringify(answer)).toBe(isSilent);
    // Repeated, also by another process, it answers what it answered and changes nothing.
    const before = await world.read(0, "GET", `/contracts/${userId}`);
    expect(await world.message(1, message)).toEqual(answer);
    expect((await world.read(0, "GET", `/contracts/${userId}`)).body).toEqual(before.body);
    if (!isSilent || status === "ended" || status === "past_due") return;
    const followed = before.body as { billing?: object; billingPeriod: { autoRenew: boolean } };
    expect(followed.billing, "the subscription that pays is shown").toBeDefined();
  }),
  once(
    "messages of a payment provider at once",
    fc.array(bought, { minLength: 4, maxLength: 4 }),
    async (world, drawn) => {
      // Messages of different users share a transaction.
      const messages = drawn.flatMap((each, index) => {
        const userId = picked(world.users, index);
        return userId === undefined ? [] : messageOf(world, userId, each);
      });
      const answers = await Promise.all(messages.map((message) => world.message(0, message)));
      for (const [index, message] of messages.entries())
        expect(await world.message(1, message)).toEqual(answers[index]);
    },
  ),
  about("detach from a subscription", fc.constant(undefined), async (world, userId) => {
    await world.call("DELETE", `/contracts/${userId}/billing`);
    const { body } = await world.read(1, "GET", `/contracts/${userId}`);
    expect(body).not.toHaveProperty("billing");
  }),
];

const time = once(
  "time passes",
  fc.record({
    milliseconds: fc.constantFrom(60_000, 3_600_000, DAY_MS, 8 * DAY_MS, 31 * DAY_MS),
    sweeps: fc.boolean(),
  }),
  (world, { milliseconds, sweeps }) => world.pass(milliseconds, sweeps),
);

/** Any operation. Consumption, holds and contracts come more often than changes of the catalog. */
export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.oneof(...consumption) },
  { weight: 5, arbitrary: fc.oneof(...holds) },
  { weight: 5, arbitrary: fc.oneof(...contracts) },
  { weight: 3, arbitrary: fc.oneof(...blocks) },
  { weight: 2, arbitrary: fc.oneof(...members) },
  { weight: 4, arbitrary: fc.oneof(...budgets) },
  { weight: 2, arbitrary: fc.oneof(...catalog) },
  { weight: 2, arbitrary: fc.oneof(...billing) },
  { weight: 2, arbitrary: time },
);
