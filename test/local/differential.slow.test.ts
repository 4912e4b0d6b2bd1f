import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Faregate } from "../../src/client/back/faregate.ts";
import { compilePricing, trackedLimits } from "../../src/core/pricing/compile.ts";
import { createLocalEvaluator, type LocalEvaluator } from "../../src/local/local.ts";
import {
  chosenOverrides,
  everyConfiguration,
  fileOf,
  overridePicks,
  pricingFrom,
  twoContents,
} from "../core/change/small-pricings.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { inProcess, ORIGIN } from "../support/in-process.ts";
import { yamlUpload } from "../support/uploads.ts";
import "../support/property-seed.ts";

/*
 * Local answers are the service's, over random pricings, contracts, overrides, usage and changes under way. Source: contract
 * tokens-and-leases §9.
 */

const RUNS = 12;

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi({ resources: { now: () => new Date() } });
});
afterAll(() => api.close());

async function must<T>(
  ...[method, path, body, key]: [Parameters<TestApi["call"]>[0], string, unknown, string]
): Promise<T> {
  const answer = await api.call<T>(method, path, { key, ...(body === undefined ? {} : { body }) });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** A change of the contract: of its subscription, overrides, usage, or existence. */
const step = fc.oneof(
  fc.record({ kind: fc.constant("novate" as const), version: fc.nat(1), configuration: fc.nat(999) }),
  fc.record({ kind: fc.constant("override" as const), picks: overridePicks }),
  fc.record({ kind: fc.constant("use" as const), amount: fc.nat(11) }),
  fc.record({ kind: fc.constant("recreate" as const), version: fc.nat(1), configuration: fc.nat(999) }),
);

interface Versions {
  pricing: ReturnType<typeof pricingFrom>;
  compiled: ReturnType<typeof compilePricing>;
  version: string;
}

function bodyOn({ compiled, version }: Versions, position: number): object | undefined {
  const configurations = everyConfiguration(compiled, 2).filter(
    ({ plan, addOns }) => plan !== undefined || Object.keys(addOns).length > 0,
  );
  const chosen = configurations[position % Math.max(1, configurations.length)];
  if (chosen === undefined) return undefined;
  return {
    contractedServices: { acme: version },
    subscriptionPlans: chosen.plan === undefined ? {} : { acme: chosen.plan },
    subscriptionAddOns: Object.keys(chosen.addOns).length === 0 ? {} : { acme: chosen.addOns },
  };
}

/** Answers about every feature in both modes, as the evaluator or the service gives them. */
async function answersOf(
  asked: Pick<LocalEvaluator, "evaluate" | "evaluateAll">,
  userId: string,
  features: readonly string[],
): Promise<unknown> {
  const answers: unknown[] = [];
  for (const server of [false, true]) {
    for (const name of [...features, "none"]) {
      const { eval: on, limit, used, error } = await asked.evaluate(userId, `acme-${name}`, { server });
      answers.push([name, on, limit, used, error]);
    }
    answers.push((await asked.evaluateAll(userId, { server })).features);
  }
  return answers;
}

test("local answers are the service's while contracts change", async () => {
  const compared = { local: 0, service: 0 };
  await fc.assert(
    fc.asyncProperty(
      twoContents,
      fc.record({ version: fc.nat(1), configuration: fc.nat(999) }),
      fc.array(step, { minLength: 3, maxLength: 6 }),
      async (contents, first, steps) => {
        const { key } = await api.newOrganization(api.callers.owner);
        const versions = contents.map((content, index): Versions => {
          const version = `${index + 1}.0.0`;
          const pricing = pricingFrom(content, { version });
          return { pricing, compiled: compilePricing(pricing), version };
        });
        for (const [index, content] of contents.entries()) {
          const path = index === 0 ? "/services" : "/services/Acme/pricings";
          await must("POST", path, yamlUpload(fileOf(content, { version: `${index + 1}.0.0` })), key);
        }
        const at = (index: number) => versions[index] ?? (versions[0] as Versions);
        let current = at(first.version);
        const create = async (position: number): Promise<boolean> => {
          const body = bodyOn(current, position);
          if (body === undefined) return false;
          await must("POST", "/contracts", { userContact: { userId: "ada", username: "ada" }, ...body }, key);
          return true;
        };
        fc.pre(await create(first.configuration));
        const line = inProcess(api);
        const local = createLocalEvaluator({ url: ORIGIN, apiKey: key, fetch: line.fetch });
        const client = new Faregate({ url: ORIGIN, apiKey: key, fetch: line.fetch });
        try {
          await expect.poll(() => local.state, { timeout: 30_000, interval: 5 }).toBe("connected");
          const features = [...new Set(versions.flatMap(({ pricing }) => pricing.features.map(({ name }) => name)))];
          await local.preload(["ada"]);
          for (const change of steps) {
            // Asks while the change is made. Whatever they load must not outlive it.
            const during = local.evaluate("ada", `acme-${features[0]}`).catch(() => undefined);
            if (change.kind === "use") {
              const tracked = trackedLimits(current.compiled).map(({ name }) => [name, change.amount] as const);
              if (tracked.length > 0)
                await must("PUT", "/contracts/ada/usageLevels", { acme: Object.fromEntries(tracked) }, key);
            } else if (change.kind === "override") {
              for (const { kind, name, mode, value } of chosenOverrides(current.pricing, change.picks)) {
                const path = `/contracts/ada/overrides/acme/${kind}/${encodeURIComponent(name)}`;
                await must("PUT", path, { mode, value, reason: "Agreed with support" }, key);
              }
            } else {
              const next = at(change.version);
              const body = bodyOn(next, change.configuration);
              if (body === undefined) continue;
              current = next;
              if (change.kind === "novate") await must("PUT", "/contracts/ada", body, key);
              else {
                await must("DELETE", "/contracts/ada", undefined, key);
                await create(change.configuration);
              }
            }
            await during;
            const since = performance.now();
            await expect
              .poll(
                async () => {
                  const answer = await local.evaluate("ada", "acme-none").catch(() => undefined);
                  return performance.now() - (answer?.ageMs ?? Infinity) - 1 >= since;
                },
                { timeout: 30_000, interval: 5 },
              )
              .toBe(true);
            expect(await answersOf(local, "ada", features)).toEqual(await answersOf(client.features, "ada", features));
          }
          compared.local += local.stats().local;
          compared.service += local.stats().service;
        } finally {
          await local.close();
        }
      },
    ),
    { numRuns: RUNS },
  );
  expect(compared.local).toBeGreaterThan(RUNS * 10);
  expect(compared.service).toBeGreaterThan(RUNS);
}, 300_000);
