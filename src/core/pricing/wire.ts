import { emptyRecord } from "./model.ts";
import type { AddOn, Feature, Plan, Pricing, UsageLimit } from "./model.ts";
import { seatsOf } from "./seats.ts";

/** Location of a stored pricing. `yamlPath`: an uploaded file. `url`: a remote file. */
export interface PricingPlace {
  readonly organizationId: string;
  readonly version: string;
  readonly yamlPath?: string;
  readonly url?: string;
}

function keyed<Item extends { readonly name: string }, Shape>(
  items: readonly Item[],
  shape: (item: Item) => Shape,
): Record<string, Shape> {
  const record = emptyRecord<Shape>();
  for (const item of items) record[item.name] = shape(item);
  return record;
}

/** Omits an absent field from a response, instead of sending null. No other function does this. */
function present<Key extends string, Value>(key: Key, value: Value | undefined): { [name in Key]?: Value } {
  const field: { [name in Key]?: Value } = {};
  if (value !== undefined) field[key] = value;
  return field;
}

/**
 * Converts a feature to its HTTP representation, with fields in the order of the contract. Source: pricing2yaml.md §9.
 */
export function featureToWire(feature: Feature): Record<string, unknown> {
  return {
    name: feature.name,
    ...present("description", feature.description),
    valueType: feature.valueType,
    defaultValue: feature.defaultValue,
    ...present("value", feature.value),
    type: feature.type,
    ...present("integrationType", feature.integrationType),
    pricingUrls: feature.pricingUrls ?? [],
    ...present("automationType", feature.automationType),
    ...present("docUrl", feature.docUrl),
    ...present("expression", feature.expression),
    ...present("serverExpression", feature.serverExpression),
    render: feature.render,
    ...present("tag", feature.tag),
  };
}

function limitToWire(limit: UsageLimit, seats: string | undefined): Record<string, unknown> {
  return {
    name: limit.name,
    ...present("description", limit.description),
    valueType: limit.valueType,
    defaultValue: limit.defaultValue,
    ...present("value", limit.value),
    type: limit.type,
    trackable: limit.trackable,
    ...present("period", limit.period),
    linkedFeatures: limit.linkedFeatures ?? [],
    ...(limit.name === seats ? { countsMembers: true } : {}),
  };
}

function planToWire(plan: Plan): Record<string, unknown> {
  return {
    name: plan.name,
    ...present("description", plan.description),
    price: plan.price,
    private: plan.private,
    features: plan.features,
    usageLimits: plan.usageLimits,
  };
}

function addOnToWire(addOn: AddOn): Record<string, unknown> {
  return {
    name: addOn.name,
    ...present("description", addOn.description),
    private: addOn.private,
    price: addOn.price,
    availableFor: addOn.availableFor,
    dependsOn: addOn.dependsOn,
    excludes: addOn.excludes,
    features: addOn.features,
    usageLimits: addOn.usageLimits,
    usageLimitsExtensions: addOn.usageLimitsExtensions,
    ...present("subscriptionConstraints", addOn.subscriptionConstraints),
  };
}

/**
 * Converts a pricing to its HTTP representation, with fields in the order of the contract. Maps have no prototype and
 * keep the order of the file. Source: pricing2yaml.md §9.
 */
export function pricingToWire(pricing: Pricing, place: PricingPlace): Record<string, unknown> {
  const seats = seatsOf(pricing);
  return {
    _organizationId: place.organizationId,
    ...present("yamlPath", place.yamlPath),
    ...present("url", place.url),
    version: place.version,
    currency: pricing.currency,
    createdAt: pricing.createdAt,
    features: keyed(pricing.features, featureToWire),
    usageLimits: keyed(pricing.usageLimits, (limit) => limitToWire(limit, seats)),
    plans: keyed(pricing.plans, planToWire),
    addOns: keyed(pricing.addOns, addOnToWire),
  };
}
