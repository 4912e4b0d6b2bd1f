import { z } from "zod";
import { checkedAmounts, uncheckedAmount } from "./amounts.ts";
import { strictBody } from "./change-bodies.ts";
import { NO_CONTRACT } from "./common.ts";
import { SPENDER } from "./features.ts";
import type { Operation } from "./operation.ts";
import { billing, changes, configuration, contact, price, PRO, VERSION } from "./offers.ts";

const NOT_AMOUNTS = "All values in amounts must be non-negative finite numbers";
const MAX_AMOUNTS = 50;

/** Amounts by `<service>-<limit>`. The number of entries is checked before the entries. */
const amounts = checkedAmounts(
  z
    .record(z.string(), uncheckedAmount, "The amounts field must be an object")
    .refine((given) => Object.keys(given).length <= MAX_AMOUNTS, {
      error: `The amounts field must not have more than ${MAX_AMOUNTS} entries`,
      abort: true,
    }),
  { notNumbers: "All values in amounts must be numbers", notAmounts: NOT_AMOUNTS, tooLarge: NOT_AMOUNTS },
);

/** Amounts that the user wants to consume with the feature. */
export const unlockRequest = strictBody({
  amounts: amounts.optional().describe("Amounts by `<service>-<limit>` that the purchase must leave room for"),
}).meta({ id: "UnlockRequest" });

const purchase = z
  .strictObject({ target: configuration, contact, price, ...changes, billing })
  .meta({ id: "Purchase" });

export const unlock = z
  .strictObject({
    featureId: z.string(),
    service: z.string().nullable(),
    current: configuration.nullable(),
    target: configuration.nullable(),
    reason: z
      .enum(["UNKNOWN_FEATURE", "NO_EXPRESSION", "ALREADY_ON", "BUDGET", "NOT_OFFERED", "UNDECIDED"])
      .nullable()
      .describe("Why there is no target"),
    contact,
    price: price.nullable(),
    ...changes,
    missing: z
      .record(z.string(), z.number())
      .optional()
      .describe(
        "The smallest blocks that would turn it on, by limit id; absent where blocks do not, and for organizations that give none",
      ),
    billing,
    alternatives: z.array(purchase).describe("The best purchases of other plans, at most three"),
    complete: z.boolean().describe("False when the search was cut off; `target` is then the best found so far"),
  })
  .meta({ id: "Unlock" });

const UNLOCK = {
  featureId: "tasker-board",
  service: "tasker",
  current: { pricingVersion: "1.0.0", plan: "FREE", addOns: {} },
  target: PRO,
  reason: null,
  contact: false,
  // oxlint-disable-next-line unicorn/no-thenable -- a number, and the contract's name for it
  price: { now: 0, then: 6, currency: "EUR", unit: "user/month" },
  gains: [{ kind: "limit", id: "tasker-maxTasks", before: 20, after: 200 }],
  losses: [],
  differences: [],
  alternatives: [],
  complete: true,
};

/** Purchases that turn a feature on. Source: contract offers §2. */
export const unlockOperations: readonly Operation[] = [
  {
    id: "unlockFeature",
    group: "Offers",
    method: "POST",
    path: "/features/{userId}/{featureId}/unlock",
    summary: "Find the smallest purchase for a feature",
    description:
      "Returns the configuration that turns the feature on and gives up and costs least, with what it changes. Buys and reserves nothing: send the target in a novation.",
    query: z.object({
      ...SPENDER,
      server: z.boolean().default(false).describe("Asks server expressions where a feature has one"),
      pricingVersion: VERSION,
    }),
    body: { schema: unlockRequest, example: { amounts: { "tasker-maxTasks": 1 } }, required: false },
    agent: { may: "read", page: "contracts/{userId}" },
    answers: { 200: { schema: unlock, example: UNLOCK } },
    errors: { 404: NO_CONTRACT },
  },
];
