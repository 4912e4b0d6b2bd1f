import type { CompiledExpression, CompiledPricing, EvaluationFrame } from "./compile.ts";
import type { FeatureValue, LimitValue } from "./model.ts";
import type { Grant } from "./subscription.ts";
import type { Value } from "./language/syntax-tree.ts";

/** One service of a contract: its key in lower case, its pricing, and what the contract's choice grants. */
export interface ContractedService {
  readonly serviceName: string;
  readonly pricing: CompiledPricing;
  readonly grant: Grant;
}

/** Which expressions count: with `server`, `serverExpression` before `expression`; else `expression` alone. */
export interface EvaluationMode {
  readonly server: boolean;
}

/** An expression with the identifiers that the name of the service gives it. */
export interface BoundExpression {
  readonly expression: CompiledExpression;
  readonly run: CompiledExpression["run"];
  /** Identifiers of the involved limits, in the order of `expression.usage`. */
  readonly usageIds: readonly string[];
  /** Positions of the same limits in the pricing, -1 for those it lacks. */
  readonly usageSlots: readonly number[];
  /** Whether it may run at all, and every feature and limit it names is one of its own pricing. */
  readonly selfContained: boolean;
}

/** A feature with the expressions of both modes. */
export interface BoundFeature {
  readonly name: string;
  readonly slot: number;
  readonly client: BoundExpression | undefined;
  readonly server: BoundExpression | undefined;
}

/** The identifiers of one pricing under one service name; the same for every contract on it. */
export interface Layout {
  readonly features: ReadonlyMap<string, BoundFeature>;
  readonly limits: ReadonlyMap<string, number>;
  /** Identifiers of the limits by their position. */
  readonly limitIds: readonly string[];
  readonly clientFeatureIds: readonly string[];
  readonly serverFeatureIds: readonly string[];
  /** Whether any expression of the mode reads a balance. */
  readonly clientReadsUsage: boolean;
  readonly serverReadsUsage: boolean;
}

export interface PreparedService {
  readonly serviceName: string;
  readonly pricing: CompiledPricing;
  readonly grant: Grant;
  readonly layout: Layout;
  readonly frame: EvaluationFrame;
  /** Whether the pricing context has every feature of the pricing: always so with a plan. */
  readonly complete: boolean;
}

/** Contracted services made ready; reusable for any number of usages, one evaluation at a time. */
export interface Evaluation {
  readonly services: readonly PreparedService[];
  /** The usage of the evaluation under way, for identifiers written in full. */
  usage: ReadonlyMap<string, number>;
}

/** The identifier of a feature or limit: names may hold dashes, so it is only ever built, never split. */
export function idOf(serviceName: string, name: string): string {
  return `${serviceName}-${name}`;
}

/** How many names one pricing remembers its layout for: one service has one name, until it is renamed. */
const LAYOUTS_KEPT = 8;
const layouts = new WeakMap<CompiledPricing, Map<string, Layout>>();

/** The values of a grant by position; `complete` when it has every feature of the pricing. */
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

/** Remembered, since it depends on nothing that a contract could change. */
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

/** The granted values by position, remembered with the grant. */
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

/** The value of a feature in the pricing context: where identifiers coincide, of the service contracted last. */
export function featureValue(evaluation: Evaluation, id: string): FeatureValue | undefined {
  for (let index = evaluation.services.length - 1; index >= 0; index--) {
    const service = evaluation.services[index];
    const feature = service?.layout.features.get(id);
    const value = feature === undefined ? undefined : service?.grant.features.get(feature.name);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** The value of a limit in the pricing context: where identifiers coincide, of the service contracted last. */
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

/** The feature an identifier means, and the service it belongs to: with several, the one contracted last. */
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

/** The expression that counts in this mode. */
export function expressionOf(feature: BoundFeature, mode: EvaluationMode): BoundExpression | undefined {
  return mode.server ? feature.server : feature.client;
}

/** Whether `one` and `other` can yield the same identifier: `a` with `b-c`, and `a-b` with `c`. */
function mayCollide(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}-`) || other.startsWith(`${one}-`);
}

/**
 * Makes contracted services ready for evaluation, in the order of the contract.
 *
 * What depends on the pricing or the grant alone is computed once and remembered with it, so preparing the same again
 * costs a few look-ups. Source: features-events.md §2.
 */
export function prepareEvaluation(services: readonly ContractedService[]): Evaluation {
  const prepared: PreparedService[] = [];
  const evaluation: Evaluation = { services: prepared, usage: new Map() };
  const outside: EvaluationFrame["outside"] = (to, id): Value => {
    if (to === "feature") return featureValue(evaluation, id);
    return to === "usage" ? evaluation.usage.get(id) : limitValue(evaluation, id);
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
