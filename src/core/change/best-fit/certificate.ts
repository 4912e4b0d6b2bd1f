import { findAddOn, findPlan } from "../../pricing/compile.ts";
import type { Override } from "../../pricing/overrides.ts";
import { checkSubscription, wholeConstraintsOf } from "../../pricing/subscription.ts";
import { canonical } from "../change.ts";
import { comparisonSteps } from "../compare.ts";
import { priceOf } from "../configuration.ts";
import type { Configuration, Price } from "../configuration.ts";
import { entitlementsOf } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { compareRanks, costsOf, excludes, floorSteps, lossOf, measuresOf, offers, proves } from "../loss.ts";
import type { Floor, Loss, Rank } from "../loss.ts";
import { finish, NEVER_OVER } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";

/** Returns the overrides that a certificate lists; nothing without any. */
export const overriddenBy = ({ overrides = [] }: Side): Pick<Certificate, "overrides"> =>
  overrides.length === 0 ? {} : { overrides };

/** All claims of a proposal as plain JSON, sufficient to verify it without searching. */
export interface Certificate {
  readonly service: string;
  readonly from: Configuration & { readonly version: string };
  readonly to: Configuration & { readonly version: string };
  /** Overrides of the contracts, if any. They hold on both sides. */
  readonly overrides?: readonly Override[];
  readonly loss: Loss;
  readonly price: { readonly before: Price; readonly after: Price };
  /** Lower bounds on the rank of any target, per offered plan. */
  readonly floors: readonly Floor[];
  /** `proven` when no floor is below the target. Then no better target exists, even if the search was incomplete. */
  readonly optimality: "proven" | "searched";
}

export interface CertificateQuestion {
  readonly before: Side;
  readonly after: Side;
  /** Current configuration of the contracts. */
  readonly configuration: Configuration;
}

/** Result of a check. `reason` names the first claim that is wrong. */
export type Verdict = { readonly ok: true } | { readonly ok: false; readonly reason: string };

class Checker {
  readonly #question: CertificateQuestion;
  readonly #current: Entitlements;

  constructor(question: CertificateQuestion) {
    this.#question = question;
    this.#current = entitlementsOf(question.before, question.configuration);
  }

  /** Returns the reason why contracts cannot move to this target; undefined when they can. */
  refusal(target: Configuration): string | undefined {
    const { after, configuration } = this.#question;
    const { pricing, serviceName } = after;
    const offered = offers(configuration);
    const { plan } = target;
    const verdict = checkSubscription(pricing, { serviceName, version: pricing.pricing.version, ...target });
    if (!verdict.ok) return verdict.message;
    if ((plan === undefined) !== (pricing.plans.size === 0))
      return "a pricing with plans needs one, without plans none";
    const found = plan === undefined ? undefined : findPlan(pricing, plan);
    if (found !== undefined && (found.name !== plan || !offered.plan(found))) return `plan ${plan} is not offered`;
    for (const [name, quantity] of Object.entries(target.addOns)) {
      const addOn = findAddOn(pricing, name);
      if (addOn?.name !== name || !offered.addOn(addOn)) return `add-on ${name} is not offered`;
      if (!(quantity > 0)) return `add-on ${name} has no quantity`;
    }
    return undefined;
  }

  /** Computes the loss of a move from scratch, without any cached comparison. */
  *loss(target: Configuration): Steps<Loss> {
    const comparison = yield* comparisonSteps(this.#current, entitlementsOf(this.#question.after, target));
    return lossOf(comparison.features, comparison.limits);
  }

  *rank(target: Configuration): Steps<Rank> {
    const { after, configuration } = this.#question;
    return [...measuresOf(yield* this.loss(target)), ...costsOf(after.pricing, configuration, target)];
  }

  /**
   * Yields targets that differ in one step. A step changes the plan, or adds, removes or swaps an add-on. It can also
   * restore an add-on's current quantity or move a quantity by one step.
   */
  *neighbours(target: Configuration): Generator<Configuration> {
    const { configuration, after } = this.#question;
    const { pricing } = after;
    for (const { name } of pricing.plans.values()) if (name !== target.plan) yield { ...target, plan: name };
    const selected = Object.entries(target.addOns);
    const others = [...pricing.addOns.values()].filter((addOn) => !Object.hasOwn(target.addOns, addOn.name));
    const smallest = others.map((addOn) => {
      const { minQuantity, quantityStep } = wholeConstraintsOf(addOn);
      return [addOn.name, minQuantity > 0 ? minQuantity : quantityStep] as const;
    });
    for (const added of smallest) yield { ...target, addOns: Object.fromEntries([...selected, added]) };
    for (const [held, quantity] of Object.entries(configuration.addOns)) {
      const name = findAddOn(pricing, held)?.name;
      if (name !== undefined && target.addOns[name] !== quantity)
        yield { ...target, addOns: { ...target.addOns, [name]: quantity } };
    }
    for (const [name, quantity] of selected) {
      const rest = selected.filter(([other]) => other !== name);
      yield { ...target, addOns: Object.fromEntries(rest) };
      for (const added of smallest) yield { ...target, addOns: Object.fromEntries([...rest, added]) };
      const addOn = findAddOn(pricing, name);
      const step = addOn === undefined ? 1 : wholeConstraintsOf(addOn).quantityStep;
      for (const moved of [quantity - step, quantity + step])
        yield { ...target, addOns: Object.fromEntries([...rest, [name, moved]]) };
    }
  }
}

/** Returns the sort key that decides between targets of equal rank. */
function preference({ plan, addOns }: Configuration): string {
  const names = Object.keys(addOns).map((name) => name.toLowerCase());
  return [plan?.toLowerCase() ?? "", ...names.sort()].join("\n");
}

/**
 * Verifies a certificate independently of the search; `certificate` may be any value. The reason names the first claim
 * that is wrong.
 *
 * Checks that the target is offered and a valid subscription, and that its price, loss and floors are as claimed. Also
 * checks that no target one step away is better, or equal and earlier by name.
 */
export function checkCertificate(certificate: unknown, question: CertificateQuestion): Verdict {
  return finish(checkSteps(certificate, question));
}

/**
 * Runs {@link checkCertificate} in steps. Rejects the certificate if `isOver` returns true before the check is
 * complete.
 */
export function* checkSteps(
  certificate: unknown,
  question: CertificateQuestion,
  isOver: IsOver = NEVER_OVER,
): Steps<Verdict> {
  const { before, after, configuration } = question;
  const target = targetOf(certificate);
  if (target === undefined) return { ok: false, reason: "there is no target" };
  const checker = new Checker(question);
  const refused = checker.refusal(target);
  if (refused !== undefined) return { ok: false, reason: refused };
  const rank = yield* checker.rank(target);
  const floors = yield* floorSteps(entitlementsOf(before, configuration), after);
  const expected: Certificate = {
    service: after.serviceName,
    from: { version: before.pricing.pricing.version, ...configuration },
    to: { version: after.pricing.pricing.version, ...target },
    ...overriddenBy(before),
    loss: yield* checker.loss(target),
    price: { before: priceOf(before.pricing, configuration), after: priceOf(after.pricing, target) },
    floors,
    optimality: proves(floors, rank, after) ? "proven" : "searched",
  };
  const wrong = firstDifference(certificate, expected);
  if (wrong !== undefined) return { ok: false, reason: `${wrong} is not as claimed` };
  const excluded = new Set(floors.filter((floor) => excludes(floor, rank, after)).map(({ plan }) => plan));
  for (const other of checker.neighbours(target)) {
    if (excluded.has(other.plan ?? null)) continue;
    yield;
    if (isOver()) return { ok: false, reason: "there was no time to check it" };
    if (checker.refusal(other) !== undefined) continue;
    const difference = compareRanks(yield* checker.rank(other), rank);
    if (difference < 0 || (difference === 0 && preference(other) < preference(target)))
      return { ok: false, reason: `${canonical(other)} is better` };
  }
  return { ok: true };
}

/** Extracts the target from a value that may be a certificate. */
function targetOf(certificate: unknown): Configuration | undefined {
  const to: unknown = isRecord(certificate) ? certificate["to"] : undefined;
  if (!isRecord(to) || !isRecord(to["addOns"])) return undefined;
  const { plan } = to;
  if (plan !== undefined && typeof plan !== "string") return undefined;
  const addOns: Record<string, number> = {};
  for (const [name, quantity] of Object.entries(to["addOns"])) {
    if (typeof quantity !== "number") return undefined;
    addOns[name] = quantity;
  }
  return plan === undefined ? { addOns } : { plan, addOns };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the path of the first difference. Numbers within 1e-9 are equal. */
function firstDifference(claimed: unknown, expected: unknown, path = ""): string | undefined {
  if (typeof claimed === "number" && typeof expected === "number")
    return Math.abs(claimed - expected) <= 1e-9 ? undefined : path;
  if (typeof claimed !== "object" || typeof expected !== "object" || claimed === null || expected === null)
    return Object.is(claimed, expected) ? undefined : path || "the certificate";
  if (Array.isArray(claimed) !== Array.isArray(expected)) return path || "the certificate";
  const [one, other] = [new Map(Object.entries(claimed)), new Map(Object.entries(expected))];
  for (const key of new Set([...other.keys(), ...one.keys()])) {
    const below = path === "" ? key : `${path}.${key}`;
    if (!one.has(key) || !other.has(key)) return below;
    const difference = firstDifference(one.get(key), other.get(key), below);
    if (difference !== undefined) return difference;
  }
  return undefined;
}
