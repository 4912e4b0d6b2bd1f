import type { Optional, Paging } from "./subscription.ts";
import { isObject } from "../pricing-token.ts";
import { segment } from "./transport.ts";

/** Names a feature or a usage limit of a contracted service. */
export type OverrideElement =
  | { readonly service: string; readonly feature: string }
  | { readonly service: string; readonly limit: string };

/** A value of a feature or usage limit. Payment features have a list of methods. */
export type OverrideValue = boolean | number | string | readonly string[];

/** A new exception of one contract. */
export interface OverrideChange {
  readonly value: OverrideValue;
  /** `add` adds the value to the granted number of a usage limit. */
  readonly mode: "set" | "add";
  /** Start. Default, and for a past one: now. */
  readonly from?: Date | string | undefined;
  /** End, from which on the override no longer holds. Default: never. */
  readonly until?: Date | string | undefined;
  /** 1 to 500 characters. */
  readonly reason: string;
}

/** Exception of one contract to what its plan and add-ons grant. Moments are ISO 8601 texts in UTC. */
export type Override = Readonly<{
  organizationId: string;
  userId: string;
  /** Name of the service in lower case. */
  service: string;
  kind: "features" | "usageLimits";
  name: string;
  mode: "set" | "add";
  value: OverrideValue;
  from: string;
  /** Null: it never ends. */
  until: string | null;
  reason: string;
  /** `inapplicable`: the contracted version has no element of this name and type. */
  state: "active" | "inapplicable" | "upcoming" | "ended";
  /** The value that plan and add-ons give, and the value that expressions read; null for none. */
  granted: OverrideValue | null;
  effective: OverrideValue | null;
  setAt: string;
  actor: {
    readonly kind: "user" | "key" | "anonymous" | "billing";
    readonly id: string | null;
    readonly name: string | null;
  };
}>;

/** Selects overrides to list. All conditions must hold. */
export type OverrideQuery = Paging &
  Optional<{
    /** Whole name of the service. */
    service: string;
    /** Name of the feature or usage limit. */
    name: string;
    state: Override["state"];
    endsBefore: Date | string;
  }>;

/**
 * Path of an element below its contract.
 * @internal
 */
export function elementPath(element: OverrideElement): string {
  const [kind, name] =
    "feature" in element
      ? ["features", segment("feature", element.feature)]
      : ["usageLimits", segment("limit", element.limit)];
  return `/overrides${segment("service", element.service)}/${kind}${name}`;
}

/** @internal */
export function isOverride(value: unknown): value is Override {
  return isObject(value) && typeof value["effective"] !== "undefined" && typeof value["setAt"] === "string";
}
