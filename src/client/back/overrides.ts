import type { Paging } from "./contracts.ts";
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
export interface Override {
  readonly organizationId: string;
  readonly userId: string;
  /** Name of the service in lower case. */
  readonly service: string;
  readonly kind: "features" | "usageLimits";
  readonly name: string;
  readonly mode: "set" | "add";
  readonly value: OverrideValue;
  readonly from: string;
  /** Null: it never ends. */
  readonly until: string | null;
  readonly reason: string;
  /** `inapplicable`: the contracted version has no element of this name and type. */
  readonly state: "active" | "inapplicable" | "upcoming" | "ended";
  /** The value that plan and add-ons give, and the value that expressions read; null for none. */
  readonly granted: OverrideValue | null;
  readonly effective: OverrideValue | null;
  readonly setAt: string;
  readonly actor: {
    readonly kind: "user" | "key" | "anonymous";
    readonly id: string | null;
    readonly name: string | null;
  };
}

/** Selects overrides to list. All conditions must hold. */
export interface OverrideQuery extends Paging {
  /** Whole name of the service. */
  readonly service?: string | undefined;
  /** Name of the feature or usage limit. */
  readonly name?: string | undefined;
  readonly state?: Override["state"] | undefined;
  readonly endsBefore?: Date | string | undefined;
}

/** Path of an element below its contract. */
export function elementPath(element: OverrideElement): string {
  const [kind, name] =
    "feature" in element
      ? ["features", segment("feature", element.feature)]
      : ["usageLimits", segment("limit", element.limit)];
  return `/overrides${segment("service", element.service)}/${kind}${name}`;
}

export function isOverride(value: unknown): value is Override {
  return isObject(value) && typeof value["effective"] !== "undefined" && typeof value["setAt"] === "string";
}
