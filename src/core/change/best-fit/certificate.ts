import { checkSubscription, constraintsOf } from "../../pricing/subscription.ts";
import { canonical } from "../change.ts";
import { comparisonSteps } from "../compare.ts";
import { priceOf } from "../configuration.ts";
import type { Configuration, Price } from "../configuration.ts";
import { holdingOf } from "../holding.ts";
import type { Holding, Side } from "../holding.ts";
import { compareRanks, costsOf, floorSteps, lossOf, measuresOf, offers } from "../loss.ts";
import type { Floor, Loss, Rank } from "../loss.ts";
import { finish, NEVER_OVER } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";

/** Everything that a proposal claims, as plain JSON: enough to be checked without searching. */
export interface Certificate {
  readonly service: string;
  readonly from: Configuration & { readonly version: string };
  readonly to: Configuration & { readonly version: string };
  readonly loss: Loss;
  readonly price: { readonly before: Price; readonly after: Price };
  /** For each plan offered, what no target on it can do better than. */
  readonly floors: readonly Floor[];
  /** `proven` when no floor is below the target: then nothing better exists, whatever was searched. */
  readonly optimality: "proven" | "searched";
}

export interface CertificateQuestion {
  readonly before: Side;
  readonly after: Side;
  /** What the contracts have now. */
  readonly configuration: Configuration;
}

/** What a check says; `reason` names the first thing that is not as claimed. */
export type Verdict = { readonly ok: true } | { readonly ok: false; readonly reason: string };

class Checker {
  readonly #question: CertificateQuestion;
  readonly #current: Holding;

  constructor(question: CertificateQuestion) {
    this.#question = question;
    this.#current = holdingOf(question.before, question.configuration);
  }

  /** Why nobody could be moved there; undefined when they could. */
  refusal(target: Configuration): string | undefined {
    const { after, configuration } = this.#question;
    const { pricing, serviceName } = after;
    const offered = offers(configuration);
    const { plan } = target;
    const verdict = checkSubscription(pricing, { serviceName, version: pricing.pricing.version, ...target });
    if (!verdict.ok) return verdict.message;
    if ((plan === undefined) !== (pricing.plans.size === 0))
      return "a pricing with plans needs one, without plans none";
    const found = plan === undefined ? undefined : pricing.plans.get(plan.toLowerCase());
    if (found !== undefined && (found.name !== plan || !offered.plan(found))) return `plan ${plan} is not offered`;
    for (const [name, quantity] of Object.entries(target.addOns)) {
      const addOn = pricing.addOns.get(name.toLowerCase());
      if (addOn?.name !== name || !offered.addOn(addOn)) return `add-on ${name} is not offered`;
      if (!(quantity > 0)) return `add-on ${name} has no quantity`;
    }
    return undefined;
  }

  /** The loss of going there, all of it looked at anew. */
  *loss(target: Configuration): Steps<Loss> {
    const comparison = yield* comparisonSteps(this.#current, holdingOf(this.#question.after, target));
    return lossOf(comparison.features, comparison.limits);
  }

  *rank(target: Configuration): Steps<Rank> {
    const { after, configuration } = this.#question;
    return [...measuresOf(yield* this.loss(target)), ...costsOf(after.pricing, configuration, target)];
  }

  /** Targets that differ in one thing: plan, an add-on more, less, as it is now, or for another, a step of quantity. */
  *neighbours(target: Configuration): Generator<Configuration> {
    const { configuration, after } = this.#question;
    const { pricing } = after;
    for (const { name } of pricing.plans.values()) if (name !== target.plan) yield { ...target, plan: name };
    const selected = Object.entries(target.addOns);
    const others = [...pricing.addOns.values()].filter((addOn) => !Object.hasOwn(target.addOns, addOn.name));
    const smallest = others.map((addOn) => {
      const { minQuantity, quantityStep } = constraintsOf(addOn);
      return [addOn.name, minQuantity > 0 ? minQuantity : quantityStep] as const;
    });
    for (const added of smallest) yield { ...target, addOns: Object.fromEntries([...selected, added]) };
    for (const [held, quantity] of Object.entries(configuration.addOns)) {
      const name = pricing.addOns.get(held.toLowerCase())?.name;
      if (name !== undefined && target.addOns[name] !== quantity)
        yield { ...target, addOns: { ...target.addOns, [name]: quantity } };
    }
    for (const [name, quantity] of selected) {
      const rest = selected.filter(([other]) => other !== name);
      yield { ...target, addOns: Object.fromEntries(rest) };
      for (const added of smallest) yield { ...target, addOns: Object.fromEntries([...rest, added]) };
      const addOn = pricing.addOns.get(name.toLowerCase());
      const step = addOn === undefined ? 1 : constraintsOf(addOn).quantityStep;
      for (const moved of [quantity - step, quantity + step])
        yield { ...target, addOns: Object.fromEntries([...rest, [name, moved]]) };
    }
  }
}

/** The names of a target in their order of preference among equals. */
function preference({ plan, addOns }: Configuration): string {
  const names = Object.keys(addOns).map((name) => name.toLowerCase());
  return [plan?.toLowerCase() ?? "", ...names.sort()].join("\n");
}

/**
 * Whether a certificate is true: the target may be subscribed to and is offered, it costs and loses exactly what is
 * claimed, no plan's floor is claimed higher or lower than it is, and nothing that differs from the target in one step is
 * better or equally good and earlier by name. Searches nothing and shares nothing with who searched. The reason names the
 * first thing that is not so. `certificate` may be anything.
 */
export function checkCertificate(certificate: unknown, question: CertificateQuestion): Verdict {
  return finish(checkSteps(certificate, question));
}

/** {@link checkCertificate} step by step. A certificate that is not checked when `isOver` says so is refused. */
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
  const floors = yield* floorSteps(holdingOf(before, configuration), after);
  const discounts = after.pricing.pricing.addOns.some((addOn) => Number(addOn.price) < 0);
  const proven = !discounts && floors.every((floor) => compareRanks(floor.rank, rank.slice(0, 6)) >= 0);
  const expected: Certificate = {
    service: after.serviceName,
    from: { version: before.pricing.pricing.version, ...configuration },
    to: { version: after.pricing.pricing.version, ...target },
    loss: yield* checker.loss(target),
    price: { before: priceOf(before.pricing, configuration), after: priceOf(after.pricing, target) },
    floors,
    optimality: proven ? "proven" : "searched",
  };
  const wrong = firstDifference(certificate, expected);
  if (wrong !== undefined) return { ok: false, reason: `${wrong} is not as claimed` };
  for (const other of checker.neighbours(target)) {
    yield;
    if (isOver()) return { ok: false, reason: "there was no time to check it" };
    if (checker.refusal(other) !== undefined) continue;
    const difference = compareRanks(yield* checker.rank(other), rank);
    if (difference < 0 || (difference === 0 && preference(other) < preference(target)))
      return { ok: false, reason: `${canonical(other)} is better` };
  }
  return { ok: true };
}

/** The target of what may be a certificate. */
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

/** The path of the first place where the two differ; numbers are equal up to a billionth. */
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
