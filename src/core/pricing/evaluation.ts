import type { CompiledExpression, CompiledPricing, EvaluationFrame } from "./compile.ts";
import { type FeatureValue, type LimitValue, UNLIMITED } from "./model.ts";
import type { Grant } from "./subscription.ts";
import type { Value } from "./language/syntax-tree.ts";

/** One service of a contract: its lower-case name, its pricing, and the values that the contract grants. */
export interface ContractedService {
  readonly serviceName: string;
  readonly pricing: CompiledPricing;
  readonly grant: Grant;
}

/**
 * Selects the expressions. `server`: `serverExpression`, with `expression` as fallback. Otherwise: `expression` only.
 */
export interface EvaluationMode {
  readonly server: boolean;
}

/** An expression with the identifiers of one service. */
export interface BoundExpression {
  readonly expression: CompiledExpression;
  readonly run: CompiledExpression["run"];
  /** Identifiers of the involved limits, in the order of `expression.usage`. */
  readonly usageIds: readonly string[];
  /** Positions of the same limits in the pricing; -1 for those it lacks. */
  readonly usageSlots: readonly number[];
  /** True if the expression is executable and names only features and limits of its own pricing. */
  readonly selfContained: boolean;
}

/** A feature with the expressions of both modes. */
export interface BoundFeature {
  readonly name: string;
  readonly slot: number;
  readonly client: BoundExpression | undefined;
  readonly server: BoundExpression | undefined;
}

/** Identifiers of one pricing under one service name. All contracts on that pricing share it. */
export interface Layout {
  readonly features: ReadonlyMap<string, BoundFeature>;
  readonly limits: ReadonlyMap<string, number>;
  /** Limit identifiers by position. */
  readonly limitIds: readonly string[];
  readonly clientFeatureIds: readonly string[];
  readonly serverFeatureIds: readonly string[];
  /** `clientReadsUsage` and `serverReadsUsage`: true if any expression of the mode reads consumption. */
  readonly clientReadsUsage: boolean;
  readonly serverReadsUsage: boolean;
}

export interface PreparedService {
  readonly serviceName: string;
  readonly pricing: CompiledPricing;
  readonly grant: Grant;
  readonly layout: Layout;
  readonly frame: EvaluationFrame;
  /** True if the pricing context has every feature of the pricing. Always true with a plan. */
  readonly complete: boolean;
}

/** Contracted services, prepared for evaluation. Reusable for any usage, but not for concurrent evaluations. */
export interface Evaluation {
  readonly services: readonly PreparedService[];
  /** Usage of the current evaluation, for identifiers that expressions write in full. */
  usage: ReadonlyMap<string, number>;
}

/** Most usage of an unlimited limit that expressions see, so that none of its comparisons with the limit denies. */
const MAX_COMPARABLE = UNLIMITED / 100;

/** Returns the usage that expressions compare with a limit: the true one, unless the limit is unlimited. */
export function comparableUsage(used: number, limit: LimitValue | undefined): number {
  return used > MAX_COMPARABLE && Number(limit) >= UNLIMITED ? MAX_COMPARABLE : used;
}

/** Builds the identifier of a feature or limit. Names may contain dashes, so never split an identifier. */
export function idOf(serviceName: string, name: string): string {
  return `${serviceName}-${name}`;
}

/** Maximum cached layouts per pricing. A service has one name until it is renamed, so few are needed. */
const LAYOUTS_KEPT = 8;
const layouts = new WeakMap<CompiledPricing, Map<string, Layout>>();

/** Granted values by position. `complete` is true when they include every feature of the pricing. */
interface GrantedValues extends Pick<EvaluationFrame, "features" | "limits"> {
  readonly of: CompiledPricing;
  readonly complete: boolean;
}
const values = new WeakMap<Grant, GrantedValues>();

function bind(expression: CompiledExpression | undefined, serviceName: string): BoundExpression | undefined {
  if (expression === undefined) return undefined;
  const known = [...expression.features, ...expression.usage].every(({ slot }) => slot >= 0);
  return {
    expression,
    run: expression.run,
    usageIds: expression.usage.map(({ name }) => idOf(serviceName, name)),
    usageSlots: expression.usage.map(({ slot }) => slot),
    selfContained: known && expression.mentionsContext && expression.failure === undefined,
  };
}

function buildLayout(pricing: CompiledPricing, serviceName: string): Layout {
  const features = new Map<string, BoundFeature>();
  const clientFeatureIds: string[] = [];
  const serverFeatureIds: string[] = [];
  for (const [name, feature] of pricing.features) {
    const id = idOf(serviceName, name);
    const client = bind(feature.client, serviceName);
    const server = feature.server === feature.client ? client : bind(feature.server, serviceName);
    features.set(id, { name, slot: feature.slot, client, server });
    if (feature.client !== undefined) clientFeatureIds.push(id);
    if (feature.server !== undefined) serverFeatureIds.push(id);
  }
  const limitIds = pricing.pricing.usageLimits.map((limit) => idOf(serviceName, limit.name));
  const limits = new Map(limitIds.map((id, slot) => [id, slot]));
  const bound = [...features.values()];
  const clientReadsUsage = bound.some(({ client }) => client?.expression.readsUsage === true);
  const serverReadsUsage = bound.some(({ server }) => server?.expression.readsUsage === true);
  return { features, limits, limitIds, clientFeatureIds, serverFeatureIds, clientReadsUsage, serverReadsUsage };
}

/** Returns the cached layout, which contracts on the same pricing share. */
function layoutOf(pricing: CompiledPricing, serviceName: string): Layout {
  let known = layouts.get(pricing);
  if (known === undefined) {
    known = new Map();
    layouts.set(pricing, known);
  }
  let layout = known.get(serviceName);
  if (layout === undefined) {
    if (known.size >= LAYOUTS_KEPT) known.clear();
    layout = buildLayout(pricing, serviceName);
    known.set(serviceName, layout);
  }
  return layout;
}

/** Returns the granted values by position, cached per grant. */
function valuesOf(pricing: CompiledPricing, grant: Grant): GrantedValues {
  const known = values.get(grant);
  if (known?.of === pricing) return known;
  const features = pricing.pricing.features.map((feature) => grant.features.get(feature.name));
  const fresh = {
    of: pricing,
    complete: !features.includes(undefined),
    features,
    limits: pricing.pricing.usageLimits.map((limit) => grant.usageLimits.get(limit.name)),
  };
  values.set(grant, fresh);
  return fresh;
}

/** Returns a feature's value in the pricing context. If services share the identifier, the one contracted last wins. */
export function featureValue(evaluation: Evaluation, id: string): FeatureValue | undefined {
  for (let index = evaluation.services.length - 1; index >= 0; index--) {
    const service = evaluation.services[index];
    const feature = service?.layout.features.get(id);
    const value = feature === undefined ? undefined : service?.grant.features.get(feature.name);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Returns a limit's value in the pricing context. If services share the identifier, the one contracted last wins. */
export function limitValue(evaluation: Evaluation, id: string): LimitValue | undefined {
  for (let index = evaluation.services.length - 1; index >= 0; index--) {
    const service = evaluation.services[index];
    const slot = service?.layout.limits.get(id);
    const name = slot === undefined ? undefined : service?.pricing.pricing.usageLimits[slot]?.name;
    const value = name === undefined ? undefined : service?.grant.usageLimits.get(name);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Finds the feature and service of an identifier. If several match, the service contracted last wins. */
export function locateFeature(
  evaluation: Evaluation,
  id: string,
): { readonly service: PreparedService; readonly feature: BoundFeature } | undefined {
  for (let index = evaluation.services.length - 1; index >= 0; index--) {
    const service = evaluation.services[index];
    const feature = service?.layout.features.get(id);
    if (service !== undefined && feature !== undefined) return { service, feature };
  }
  return undefined;
}

/** Returns the feature's expression for this mode. */
export function expressionOf(feature: BoundFeature, mode: EvaluationMode): BoundExpression | undefined {
  return mode.server ? feature.server : feature.client;
}

/** Returns true if both service names can yield the same identifier: `a` with `b-c`, and `a-b` with `c`. */
function mayCollide(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}-`) || other.startsWith(`${one}-`);
}

/**
 * Prepares contracted services for evaluation, in the order of the contract.
 *
 * Caches everything that depends only on the pricing or the grant, so preparing them again costs a few look-ups.
 * Source: features-events.md §2.
 */
export function prepareEvaluation(services: readonly ContractedService[]): Evaluation {
  const prepared: PreparedService[] = [];
  const evaluation: Evaluation = { services: prepared, usage: new Map() };
  const outside: EvaluationFrame["outside"] = (to, id): Value => {
    if (to === "feature") return featureValue(evaluation, id);
    if (to !== "usage") return limitValue(evaluation, id);
    const used = evaluation.usage.get(id);
    return used === undefined ? used : comparableUsage(used, limitValue(evaluation, id));
  };
  for (const { serviceName, pricing, grant } of services) {
    const layout = layoutOf(pricing, serviceName);
    const { features, limits, complete } = valuesOf(pricing, grant);
    const usage = limits.map(() => 0);
    const frame = { features, limits, usage, prefix: `${serviceName}-`, outside };
    prepared.push({ serviceName, pricing, grant, layout, frame, complete });
  }
  const collides = services.some((one, index) =>
    services.slice(index + 1).some((other) => mayCollide(one.serviceName, other.serviceName)),
  );
  if (!collides) return evaluation;
  const shared = prepared.map((service): PreparedService => {
    const features = [...service.layout.features.keys()].map((id) => featureValue(evaluation, id));
    const limits = service.layout.limitIds.map((id) => limitValue(evaluation, id));
    return { ...service, frame: { ...service.frame, features, limits }, complete: !features.includes(undefined) };
  });
  prepared.splice(0, prepared.length, ...shared);
  return evaluation;
}
