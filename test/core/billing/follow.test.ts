import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decide } from "../../../src/core/billing/decide.ts";
import type { SubscriptionContent } from "../../../src/core/billing/message.ts";
import { type AppliedTarget, type CurrentServices, planContract } from "../../../src/core/billing/plan.ts";
import type { SubscriptionRegister } from "../../../src/core/billing/register.ts";
import { type Followed, nextChangeAt, shownAt, targetAt } from "../../../src/core/billing/target.ts";
import type { PriceMap } from "../../../src/core/billing/terms.ts";

/* From messages to the contract that they make, without a database. */

const PRICES: PriceMap = {
  pro: { service: "Tasker", plan: "PRO" },
  business: { service: "Tasker", plan: "BUSINESS" },
  tasks: { service: "Tasker", addOn: "extraTasks", quantity: 2 },
  chat: { service: "Chat", plan: "TEAM" },
  credits: { service: "Tasker", limit: "maxTasks", amount: 100 },
};
const DAY_MS = 86_400_000;
const T0 = Date.UTC(2026, 0, 31);

interface Sent {
  createdAt: number;
  content: SubscriptionContent;
}

function sent(createdAt: number, fields: Partial<SubscriptionContent> = {}): Sent {
  const content: SubscriptionContent = {
    kind: "subscription",
    subscription: "sub_1",
    customer: "cus_1",
    userId: "ada",
    status: "active",
    items: [{ price: "pro", quantity: 1 }],
    periodStart: T0,
    periodEnd: Date.UTC(2026, 1, 28),
    renewalPeriod: { value: 1, unit: "MONTH" },
    endsAt: null,
    endedAt: null,
    startedAt: T0,
    ...fields,
  };
  return { createdAt, content };
}

/** Registers that the messages of one user leave behind, and the contract that they made on the way. */
class World {
  registers = new Map<string, SubscriptionRegister>();
  outcomes: string[] = [];
  contract: { services: CurrentServices; isOver: boolean } | null = null;
  applied: AppliedTarget | null = null;
  billing: object | null = null;
  readonly terms: Followed["terms"];
  constructor(terms: Followed["terms"] = { graceDays: 7, ended: { tasker: "FREE" } }) {
    this.terms = terms;
  }
  followed(): Followed[] {
    return [...this.registers.values()].map((register) => ({ provider: "stripe", register, terms: this.terms }));
  }
  receive({ createdAt, content }: Sent, at: number): this {
    const decision = decide(this.registers.get(content.subscription), { createdAt, arrivedAt: at, content }, PRICES);
    if ("outcome" in decision) {
      this.outcomes.push(decision.outcome);
      return this;
    }
    this.registers.set(content.subscription, decision.register);
    this.outcomes.push(decision.isNewest ? "received" : "stale");
    return this.follow(at);
  }
  follow(at: number): this {
    const plan = planContract(this.contract, this.applied, targetAt(this.followed(), at));
    if (plan === null) return this;
    this.applied = plan.applied;
    this.billing = plan.billing ?? this.billing;
    this.contract = { services: plan.services, isOver: plan.applied.ends };
    return this;
  }
  state() {
    return { services: this.contract?.services, billing: this.billing, ends: this.applied?.ends };
  }
}

const permutations = <T>(items: readonly T[]): T[][] =>
  items.length <= 1
    ? [[...items]]
    : items.flatMap((item, index) =>
        permutations(items.filter((_, other) => other !== index)).map((rest) => [item, ...rest]),
      );

describe("the messages of one subscription", () => {
  const day = (days: number) => T0 + days * DAY_MS;
  const life = [
    sent(day(0)),
    sent(day(1), { items: [{ price: "business", quantity: 1 }] }),
    sent(day(2), { items: [{ price: "business", quantity: 1 }], endsAt: Date.UTC(2026, 1, 28) }),
    sent(day(3), { items: [{ price: "business", quantity: 1 }], status: "ended", endedAt: day(3) }),
  ];

  it.each<[Record<string, string | null>]>([[{ tasker: "FREE" }], [{ tasker: null }], [{}]])(
    "end in one contract in all 24 orders, ended %j (1)",
    (ended) => {
      const states = permutations(life).map((order) => {
        const world = new World({ graceDays: 7, ended });
        for (const message of order) world.receive(message, day(4)).receive(message, day(4));
        return world.state();
      });
      for (const state of states) expect(state).toEqual(states[0]);
      expect(states[0]?.services).toEqual({
        tasker: ended["tasker"] === "FREE" ? { plan: "FREE", addOns: {} } : { plan: "BUSINESS", addOns: {} },
      });
      expect(states[0]?.ends).toBe(ended["tasker"] !== "FREE");
    },
  );

  it("stay ended, whatever comes later or in the same second (2)", () => {
    const world = new World();
    world
      .receive(sent(day(3), { status: "ended" }), day(4))
      .receive(sent(day(3)), day(4))
      .receive(sent(day(5)), day(6));
    expect(world.outcomes).toEqual(["received", "stale", "stale"]);
    expect(world.contract?.services).toEqual({ tasker: { plan: "FREE", addOns: {} } });
  });

  it("change nothing where a price is in no map, beside a known one too (3)", () => {
    const world = new World().receive(life[0] ?? sent(0), day(1));
    const before = world.state();
    world.receive(
      sent(day(2), {
        items: [
          { price: "business", quantity: 1 },
          { price: "other", quantity: 1 },
        ],
      }),
      day(2),
    );
    expect(world.outcomes.at(-1)).toBe("unmapped");
    expect(world.state()).toEqual(before);
  });

  it("take the later of two plans, and the sum of add-ons", () => {
    const items = [
      { price: "pro", quantity: 1 },
      { price: "tasks", quantity: 3 },
      { price: "business", quantity: 1 },
    ];
    const world = new World().receive(sent(T0, { items }), T0);
    expect(world.contract?.services).toEqual({ tasker: { plan: "BUSINESS", addOns: { extraTasks: 6 } } });
  });

  it.each([
    [{ periodEnd: T0 - 1 }, "The period ends before it starts"],
    [{ items: [{ price: "tasks", quantity: 0 }] }, "The quantity of tasks must be a whole number from 1 to 1000000"],
    [{ items: [{ price: "tasks", quantity: 1e9 }] }, "The quantity of tasks must be a whole number from 1 to 1000000"],
    [{ items: [{ price: "tasks", quantity: 0.5 }] }, "The quantity of tasks must be a whole number from 1 to 1000000"],
    [
      {
        items: [
          { price: "unknown", quantity: 1 },
          { price: "", quantity: 1 },
        ],
      },
      "items[1].price must be a text of 1 to 255 characters",
    ],
    [{ items: [{ price: "credits", quantity: 1 }] }, "credits is a block of maxTasks, which no subscription has"],
  ])("are refused with a sentence: %j", (fields, reason) => {
    const decision = decide(undefined, { ...sent(T0, fields), arrivedAt: T0 }, PRICES);
    expect(decision).toEqual({ outcome: "failed", reason });
  });

  it("keep everything for the days of grace, then leave what an ended one leaves (6)", () => {
    const world = new World().receive(sent(day(0)), day(0)).receive(sent(day(1), { status: "past_due" }), day(1));
    const paid = { tasker: { plan: "PRO", addOns: {} } };
    expect(world.contract?.services).toEqual(paid);
    expect(nextChangeAt(world.followed(), day(1))).toBe(day(8));
    expect(world.follow(day(8) - 1).contract?.services).toEqual(paid);
    const other = new World();
    for (const register of world.registers.values()) other.registers.set(register.subscription, register);
    expect(other.follow(day(8)).contract?.services).toEqual({ tasker: { plan: "FREE", addOns: {} } });
    world.receive(sent(day(7)), day(7));
    expect(nextChangeAt(world.followed(), day(7))).toBeNull();
    expect(world.follow(day(30)).contract?.services).toEqual(paid);
  });

  it("count the days of grace from the first message of a series, in any order", () => {
    const series = [sent(day(0)), ...[1, 2, 3].map((days) => sent(day(days), { status: "past_due" }))];
    for (const order of permutations(series)) {
      const world = new World();
      for (const message of order) world.receive(message, day(3));
      expect(nextChangeAt(world.followed(), day(3))).toBe(day(8));
    }
  });

  it.each(["unpaid", "paused", "incomplete"] as const)(
    "leave what an ended one leaves while %s, and come back",
    (status) => {
      const world = new World().receive(sent(day(0)), day(0)).receive(sent(day(1), { status }), day(1));
      expect(world.contract?.services).toEqual({ tasker: { plan: "FREE", addOns: {} } });
      expect(shownAt(world.followed(), day(1))).toMatchObject({ subscription: "sub_1", status });
      world.receive(sent(day(2)), day(2));
      expect(world.contract?.services).toEqual({ tasker: { plan: "PRO", addOns: {} } });
    },
  );
});

describe("several subscriptions of one user", () => {
  const older = { subscription: "sub_1", startedAt: T0 };
  const newer = { subscription: "sub_2", startedAt: T0 + DAY_MS, items: [{ price: "business", quantity: 1 }] };

  it("follow the newest of a service, also while the older one is deleted (5)", () => {
    const world = new World()
      .receive(sent(T0, older), T0)
      .receive(sent(T0 + DAY_MS, newer), T0 + DAY_MS)
      .receive(sent(T0 + 2 * DAY_MS, { ...older, status: "ended" }), T0 + 2 * DAY_MS);
    expect(world.contract?.services).toEqual({ tasker: { plan: "BUSINESS", addOns: {} } });
    expect(shownAt(world.followed(), T0 + 3 * DAY_MS)?.subscription).toBe("sub_2");
  });

  it("go back to the older one when the newer has ended", () => {
    const world = new World()
      .receive(sent(T0, older), T0)
      .receive(sent(T0 + DAY_MS, newer), T0 + DAY_MS)
      .receive(sent(T0 + 2 * DAY_MS, { ...newer, status: "ended" }), T0 + 2 * DAY_MS);
    expect(world.contract?.services).toEqual({ tasker: { plan: "PRO", addOns: {} } });
  });

  it("take a service away without touching others", () => {
    const chat = { subscription: "sub_3", items: [{ price: "chat", quantity: 1 }] };
    const world = new World({ graceDays: 7, ended: {} });
    world.receive(sent(T0, older), T0).receive(sent(T0 + 1000, chat), T0 + 1000);
    world.receive(sent(T0 + 2000, { ...older, status: "ended" }), T0 + 2000);
    expect(world.contract?.services).toEqual({ chat: { plan: "TEAM", addOns: {} } });
  });

  it("bring back nothing that an ended contract kept", () => {
    const chat = { subscription: "sub_3", items: [{ price: "chat", quantity: 1 }] };
    const world = new World({ graceDays: 7, ended: {} });
    world.receive(sent(T0, older), T0).receive(sent(T0 + 1000, { ...older, status: "ended" }), T0 + 1000);
    expect(world.state()).toMatchObject({ services: { tasker: { plan: "PRO" } }, ends: true });
    world.receive(sent(T0 + 2000, chat), T0 + 2000);
    expect(world.contract?.services).toEqual({ chat: { plan: "TEAM", addOns: {} } });
  });

  it("leave a change by hand alone until items change", () => {
    const world = new World().receive(sent(T0), T0);
    world.contract = { services: { tasker: { plan: "FREE", addOns: {} } }, isOver: false };
    const next = { periodStart: Date.UTC(2026, 1, 28), periodEnd: Date.UTC(2026, 2, 31) };
    world.receive(sent(T0 + 28 * DAY_MS, next), T0 + 28 * DAY_MS);
    expect(world.contract?.services).toEqual({ tasker: { plan: "FREE", addOns: {} } });
    world.receive(sent(T0 + 29 * DAY_MS, { ...next, items: [{ price: "business", quantity: 1 }] }), T0 + 29 * DAY_MS);
    expect(world.contract?.services).toEqual({ tasker: { plan: "BUSINESS", addOns: {} } });
  });
});

describe("any history", () => {
  const status = fc.constantFrom("active", "trialing", "past_due", "unpaid", "paused", "incomplete", "ended");
  const message = fc.record({
    subscription: fc.constantFrom("sub_1", "sub_2"),
    status,
    items: fc.subarray(["pro", "business", "tasks", "chat", "unknown"], { minLength: 1 }),
    cancels: fc.boolean(),
  });
  /** Messages of distinct seconds: within one second the order of arrival decides. */
  const history = fc.array(message, { minLength: 1, maxLength: 7 }).map((messages) =>
    messages.map(({ subscription, status, items, cancels }, index) => {
      const createdAt = T0 + index * DAY_MS;
      return sent(createdAt, {
        subscription,
        startedAt: subscription === "sub_1" ? T0 : T0 + 1000,
        status,
        items: items.map((price) => ({ price, quantity: 1 })),
        endsAt: cancels ? createdAt + 3 * DAY_MS : null,
      });
    }),
  );
  const ended = fc.constantFrom<Record<string, string | null>>({}, { tasker: "FREE" }, { tasker: "FREE", chat: null });

  it("leaves the same registers and target in any order, with repetitions", () => {
    fc.assert(
      fc.property(
        history.chain((messages) =>
          fc.tuple(
            fc.constant(messages),
            fc.shuffledSubarray([...messages, ...messages], { minLength: messages.length * 2 }),
          ),
        ),
        ended,
        fc.integer({ min: 0, max: 20 }),
        ([inOrder, shuffled], left, days) => {
          const read = (messages: readonly Sent[]) => {
            const world = new World({ graceDays: 2, ended: left });
            for (const each of messages) world.receive(each, T0 + 20 * DAY_MS);
            const followed = world
              .followed()
              .sort((a, b) => (a.register.subscription < b.register.subscription ? -1 : 1));
            const at = T0 + days * DAY_MS;
            return {
              registers: followed.map(({ register }) => register),
              target: targetAt(followed, at),
              shown: shownAt(followed, at),
            };
          };
          expect(read(shuffled)).toEqual(read(inOrder));
        },
      ),
      { numRuns: 500 },
    );
  });

  it("plans nothing for a target that is applied already", () => {
    fc.assert(
      fc.property(history, ended, (messages, left) => {
        const world = new World({ graceDays: 2, ended: left });
        for (const each of messages) world.receive(each, each.createdAt);
        const at = T0 + 30 * DAY_MS;
        world.follow(at);
        if (world.contract === null) return;
        const again = planContract(world.contract, world.applied, targetAt(world.followed(), at));
        expect(again).toMatchObject({ changesServices: false, billing: null });
      }),
      { numRuns: 500 },
    );
  });
});
