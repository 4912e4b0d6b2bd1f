import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Configuration, configurationKey, configurationOf } from "../../src/core/change/configuration.ts";
import type { Override } from "../../src/core/pricing/overrides.ts";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import {
  chosenOverrides,
  everyConfiguration,
  fileOf,
  overridePicks,
  pricingFrom,
  twoContents,
} from "../core/change/small-pricings.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { type ContractAnswer } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";
import "../support/property-seed.ts";

/* The dry run must predict what evaluation answers after the change, for random pricings, contracts and changes. */

interface Flips {
  client: number;
  server: number;
}
interface Report {
  counts: Record<string, number>;
  groups: {
    pricingVersion: string;
    configuration: Configuration;
    overrides?: (Override & { after: string })[];
    target: Configuration | null;
    problem: object | null;
    counts: Record<string, number>;
    features: { feature: string; turnedOff: Flips; turnedOn: Flips }[];
  }[];
}
type Action = "archive" | "archive with a fallback" | "novation" | "novation with groups" | "disable" | "activate";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

const levels = fc.record({
  tasks: fc.constantFrom(0, 1, 2, 2.5, 3, 4, 5, 6, 10, 11),
  seats: fc.constantFrom(0, 1, 2, 3, 5, 6, 9, 10),
});
const scenario = fc.record({
  contents: twoContents,
  contracts: fc.array(fc.record({ pick: fc.nat(999), levels, exceptions: overridePicks }), {
    minLength: 2,
    maxLength: 5,
  }),
  target: fc.nat(999),
  action: fc.constantFrom<Action>(
    "archive",
    "archive with a fallback",
    "novation",
    "novation",
    "novation with groups",
    "disable",
    "activate",
  ),
});

/** Creates an organization with both versions, and contracts on the first. */
class Stage {
  readonly #key: string;
  readonly users: string[] = [];

  constructor(key: string) {
    this.#key = key;
  }

  async call<T>(...[method, path, body]: [Parameters<TestApi["call"]>[0], string, unknown?]) {
    return api.call<T & { error?: string }>(method, path, { key: this.#key, ...(body === undefined ? {} : { body }) });
  }

  async must<T>(...asked: [Parameters<TestApi["call"]>[0], string, unknown?]): Promise<T> {
    const { status, body } = await this.call<T>(...asked);
    if (status >= 300) throw new Error(`${asked[0]} ${asked[1]}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  async contract({ plan, addOns }: Configuration, used: Record<string, number>): Promise<void> {
    const userId = `user-${this.users.length}`;
    this.users.push(userId);
    const made = await this.must<ContractAnswer>("POST", "/contracts", {
      userContact: { userId, username: userId },
      contractedServices: { acme: "1.0.0" },
      subscriptionPlans: plan === undefined ? {} : { acme: plan },
      subscriptionAddOns: { acme: addOns },
    });
    const tracked = Object.keys(made.usageLevels["acme"] ?? {}).filter((name) => Object.hasOwn(used, name));
    if (tracked.length === 0) return;
    const amounts = Object.fromEntries(tracked.map((name) => [name, used[name] ?? 0]));
    await this.must("PUT", `/contracts/${userId}/usageLevels`, { acme: amounts });
  }

  /** Sets overrides of the newest contract. Returns those of the last one per element, as reports list them. */
  async override(overrides: readonly Override[]): Promise<Override[]> {
    const set = new Map<string, Override>();
    for (const { kind, name, mode, value } of overrides) {
      const path = `/contracts/${this.users.at(-1)}/overrides/acme/${kind}/${name}`;
      await this.must("PUT", path, { mode, value, reason: "Agreed with support" });
      set.set(`${kind} ${name}`, { kind, name, mode, value });
    }
    return [...set].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, override]) => override);
  }

  /** Features that are on for a contract, as `feature mode`; empty where evaluation fails. */
  async on(userId: string): Promise<Set<string>> {
    const on = new Set<string>();
    for (const mode of ["client", "server"]) {
      const { status, body } = await this.call<Record<string, boolean>>(
        "POST",
        `/features/${userId}?server=${mode === "server"}`,
      );
      if (status !== 200) continue;
      for (const [id, value] of Object.entries(body)) if (value) on.add(`${id.slice("acme-".length)} ${mode}`);
    }
    return on;
  }
}

/** Features that the report turns off or on: `feature mode` -> number of contracts. */
function foretold(features: Report["groups"][number]["features"], way: "turnedOff" | "turnedOn"): Map<string, number> {
  const found = new Map<string, number>();
  for (const each of features)
    for (const mode of ["client", "server"] as const)
      if (each[way][mode] > 0) found.set(`${each.feature} ${mode}`, each[way][mode]);
  return found;
}

test("the dry run of any change foretells what evaluation answers after it, contract by contract", async () => {
  const seen = { made: 0, refused: 0, flips: 0, moved: 0 };
  await fc.assert(
    fc.asyncProperty(scenario, async ({ contents: [before, after], contracts, target, action }) => {
      const { key } = await api.newOrganization(api.callers.owner);
      const stage = new Stage(key);
      await stage.must("POST", "/services", yamlUpload(fileOf(before)));
      const second = { version: "2.0.0", createdAt: "2025-02-01" };
      await stage.must("POST", "/services/Acme/pricings", yamlUpload(fileOf(after, second)));
      const sources = everyConfiguration(compilePricing(pricingFrom(before)));
      const targets = everyConfiguration(compilePricing(pricingFrom(after, second)));
      const held: Configuration[] = [];
      const overridden: Override[][] = [];
      for (const { pick, levels, exceptions: picks } of contracts) {
        const configuration = sources[pick % sources.length] ?? { addOns: {} };
        held.push(configuration);
        await stage.contract(configuration, levels);
        overridden.push(await stage.override(chosenOverrides(pricingFrom(before), picks)));
      }
      if (action === "activate") await stage.must("PUT", "/services/acme/pricings/2.0.0", { subscriptionAddOns: {} });
      const chosen = targets[target % targets.length] ?? { addOns: {} };
      const first = held[0] ?? { addOns: {} };
      const groups = action === "novation with groups" ? [{ configuration: first, target: chosen }] : [];
      const fallback = {
        ...(chosen.plan === undefined ? {} : { subscriptionPlan: chosen.plan }),
        subscriptionAddOns: chosen.addOns,
      };
      const [about, make] = {
        archive: [
          { action: "archive", pricingVersion: "1.0.0", groups },
          () => stage.call("PUT", "/services/acme/pricings/1.0.0", { groups }),
        ],
        "archive with a fallback": [
          { action: "archive", pricingVersion: "1.0.0", ...fallback },
          () => stage.call("PUT", "/services/acme/pricings/1.0.0", fallback),
        ],
        novation: [
          { action: "novation" },
          () => stage.call("POST", "/services/acme/novations", { pricingVersion: "2.0.0" }),
        ],
        "novation with groups": [
          { action: "novation", groups },
          () => stage.call("POST", "/services/acme/novations", { pricingVersion: "2.0.0", groups }),
        ],
        disable: [{ action: "disable" }, () => stage.call("DELETE", "/services/acme")],
        activate: [
          { action: "activate", pricingVersion: "2.0.0" },
          () => stage.call("PUT", "/services/acme/pricings/2.0.0?availability=active"),
        ],
      }[action] as [object, () => Promise<{ status: number; body: { error?: string } }>];

      const report = await stage.must<Report>("POST", "/services/acme/impact", about);
      const was = await Promise.all(stage.users.map((user) => stage.on(user)));
      const done = await make();
      const is = await Promise.all(stage.users.map((user) => stage.on(user)));
      expect(report.counts["contracts"]).toBe(stage.users.length);
      if (done.status >= 300) {
        seen.refused += 1;
        expect(done.status).toBeLessThan(500);
        // A target is rejected for the reason that the report gives, or because its search was cut off.
        if (!(done.body.error ?? "").includes("cannot be certified"))
          expect(report.counts["unplaced"]).toBeGreaterThan(0);
        expect(is).toEqual(was);
        return;
      }
      seen.made += 1;
      const turnedOff = was.filter((on, i) => [...on].some((each) => !is[i]?.has(each))).length;
      expect(report.counts["turnedOff"]).toBe(turnedOff);
      for (const group of report.groups) {
        const theirs = (group.overrides ?? []).map(({ kind, name, mode, value }) => ({ kind, name, mode, value }));
        const mine = [...held.keys()].filter(
          (i) =>
            configurationKey(held[i] ?? first) === configurationKey(group.configuration) &&
            JSON.stringify(overridden[i]) === JSON.stringify(theirs),
        );
        expect(group.counts["contracts"]).toBe(mine.length);
        for (const [way, from, to] of [
          ["turnedOff", was, is],
          ["turnedOn", is, was],
        ] as const) {
          const flips = new Map<string, number>();
          for (const i of mine)
            for (const each of from[i] ?? []) if (!to[i]?.has(each)) flips.set(each, (flips.get(each) ?? 0) + 1);
          seen.flips += flips.size;
          expect(foretold(group.features, way)).toEqual(flips);
        }
        if (action === "disable" || action === "activate" || group.target === null) continue;
        for (const i of mine) {
          const { contractedServices, subscriptionPlans, subscriptionAddOns } = await stage.must<ContractAnswer>(
            "GET",
            `/contracts/${stage.users[i]}`,
          );
          expect(contractedServices).toEqual({ acme: "2.0.0" });
          const now = configurationOf(subscriptionPlans["acme"], subscriptionAddOns["acme"] ?? {});
          expect(configurationKey(now)).toBe(configurationKey(group.target));
          seen.moved += 1;
        }
      }
    }),
    { numRuns: 60 },
  );
  expect(seen.made).toBeGreaterThan(30);
  expect(seen.flips).toBeGreaterThan(30);
  expect(seen.moved).toBeGreaterThan(30);
}, 180_000);
