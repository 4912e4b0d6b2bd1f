import type { JsonValue } from "../../pricing/model.ts";
import { compareAccess, describeAccess, factsOf } from "../access.ts";
import { canonical, classOf, type ChangeClass } from "../change.ts";
import { MODES } from "../compare.ts";
import { featureValueEffect, limitValueEffect, type Effect } from "../effect.ts";
import type { Entitlements, Mode } from "../entitlements.ts";

/** Difference of one subject in one configuration. */
export interface Finding {
  readonly aspect: string;
  readonly class: ChangeClass;
  readonly before: JsonValue;
  readonly after: JsonValue;
  readonly mode?: Mode;
  readonly unknown?: true;
}

export function limitFindings(limit: string): (before: Entitlements, after: Entitlements) => readonly Finding[] {
  return (before, after) => {
    const [old, now] = [before, after].map((holding) => holding.grant.usageLimits.get(limit));
    const effect = limitValueEffect(old, now);
    return effect === "same"
      ? []
      : [{ aspect: "value", class: classOf(effect), before: old ?? null, after: now ?? null }];
  };
}

export function featureFindings(feature: string): (before: Entitlements, after: Entitlements) => readonly Finding[] {
  return (before, after) => {
    const [old, now] = [before, after].map((holding) => holding.grant.features.get(feature));
    const [client = [], server = []] = MODES.map((mode) => accessFindings(before, after, feature, mode));
    const access = mergeModes(client, server);
    const effect = featureValueEffect(old, now);
    if (effect === "same") return access;
    const evaluated = [before, after].every(({ side }) => side.expressions.get(feature)?.server !== undefined);
    // A boolean takes effect only through its expression. If the expression's result changed, that finding is enough.
    const means = evaluated && typeof (old ?? now) === "boolean";
    if (means && access.length > 0) return access;
    const kind = means ? "neutral" : classOf(effect);
    return [...access, { aspect: "value", class: kind, before: old ?? null, after: now ?? null }];
  };
}

function accessFindings(before: Entitlements, after: Entitlements, feature: string, mode: Mode): readonly Finding[] {
  const access = compareAccess(before, after, feature, mode);
  const sameText = factsOf(before, feature, mode)?.shape === factsOf(after, feature, mode)?.shape;
  if (access.effect === "same") return [];
  const shown = {
    aspect: "access",
    before: describeAccess(before, feature, mode),
    after: describeAccess(after, feature, mode),
    mode,
  } as const;
  if (!access.decided) return [{ ...shown, class: "incompatible", unknown: true }];
  if (sameText && access.before === access.after && isExplainedByLimit(before, after, feature, mode, access.effect))
    return [];
  return [{ ...shown, class: classOf(access.effect) }];
}

/**
 * Returns true if a limit that the expression reads changed in the same direction. That limit's own change already
 * explains the effect.
 */
function isExplainedByLimit(
  before: Entitlements,
  after: Entitlements,
  feature: string,
  mode: Mode,
  effect: Effect,
): boolean {
  const limits = factsOf(before, feature, mode)?.limits ?? [];
  return limits.some(
    (name) => limitValueEffect(before.grant.usageLimits.get(name), after.grant.usageLimits.get(name)) === effect,
  );
}

/** Merges the findings of both modes. If they are of the same kinds, keeps only the client's, without a mode. */
function mergeModes(client: readonly Finding[], server: readonly Finding[]): readonly Finding[] {
  const kinds = (findings: readonly Finding[]): string =>
    canonical(findings.map(({ class: kind, unknown }) => [kind, unknown]));
  if (kinds(client) !== kinds(server)) return [...client, ...server];
  return client.map((finding) => withoutMode(finding));
}

function withoutMode({ aspect, class: kind, before, after, unknown }: Finding): Finding {
  return { aspect, class: kind, before, after, ...(unknown === true ? { unknown } : {}) };
}
