import type { evaluationErrorCode } from "../features.ts";
import type { itemVerdict } from "../usage.ts";
import type { ofrepErrorCode } from "../ofrep.ts";
import type { z } from "zod";

type EvaluationCode = z.infer<typeof evaluationErrorCode>;
type ItemReason = NonNullable<z.infer<typeof itemVerdict>["reason"]>;
type OfrepCode = z.infer<typeof ofrepErrorCode>;

/** Remedies of the codes inside an answer 200 about a feature, in `error.code`, `reason` or `errorCode`. */
export const ANSWER_CODES: Readonly<Record<EvaluationCode | ItemReason | OfrepCode, string>> = {
  FLAG_NOT_FOUND: "The contract has no such feature: write `<service>-<feature>`, the service in lower case.",
  PARSE_ERROR: "The feature has no expression that can be read: correct it in the pricing and upload a new version.",
  EVALUATION_ERROR:
    "The expression fails with these values: correct it in the pricing. `npx faregate test` finds such cases.",
  TYPE_MISMATCH: "The expression yields no boolean: compare values in it, such as `usage < limit`.",
  INVALID_EXPECTED_CONSUMPTION: "Name an amount for each limit of the feature; zero counts as named.",
  BUDGET_REACHED: "A budget of the spender is used up in its window: `budget` of a single call names it.",
  LIMIT_REACHED: "Wait for the reset, or offer an upgrade: the unlock call finds the smallest purchase.",
  NOT_GRANTED: "The plan, add-ons and overrides do not grant it: offer an upgrade.",
  KEY_REUSED: "Another item had this key: give each item its own.",
  FUTURE: "Correct the sender's clock: `at` is more than five minutes ahead.",
  TOO_OLD: "The record of that time is compacted: `late=count` counts the item as of now.",
  CONTRACT_NOT_FOUND: "Create the contract first, then send the item again.",
  MEMBER_NOT_FOUND: "Add the member to the contract first, then send the item again.",
  CONTRACT_EXPIRED: "Renew the contract, then send the item again.",
  CONTRACT_INVALID: "Read the item's `error`: the contract names something that no longer exists.",
  UNKNOWN_LIMIT: "The feature does not read this limit: remove it, or name another feature.",
  INVALID_CONTEXT: "Send `context` as an object whose `targetingKey` is the `userId` of a contract.",
  TARGETING_KEY_MISSING: "Add `context.targetingKey`, the `userId` of a contract.",
  GENERAL: "Read `errorDetails`, and the header `Link` if the status is an error.",
};
