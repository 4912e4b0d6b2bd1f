/*
 * Offers and unlocks as the service sends them. Type aliases instead of interfaces keep the published declarations
 * small.
 */

type Value = boolean | number | string | readonly string[];
type Amounts = Readonly<Record<string, number>>;

/** A plan and quantities of add-ons. `plan` is null in pricings without plans. Source: contract offers §1. */
export type Configuration = Readonly<{ pricingVersion: string; plan: string | null; addOns: Amounts }>;

/** A feature or limit that a purchase changes, by its id `{service}-{name}`. `null`: not granted. */
export type Change = Readonly<{ kind: "feature" | "limit"; id: string; before: Value | null; after: Value | null }>;

/** Prices that a checkout has to buy, by payment provider. Present if all of it has price ids. */
type Billed = {
  readonly billing?: {
    readonly [Name in "stripe" | "standard"]?: readonly Readonly<{ price: string; quantity: number }>[];
  };
};
type Changes = Billed & Readonly<Record<"gains" | "losses" | "differences", readonly Change[]>>;
/** Null for a text as price; `now` also for another currency. */
type Price = Readonly<{ now: number | null; then: number | null; currency: string; unit: string | null }>;

/** A purchase, with its effects and its price. `contact`: the price is a text, such as "Contact sales". */
export type Purchase = Changes & Readonly<{ target: Configuration; contact: boolean; price: Price }>;

/**
 * The smallest purchase that turns a feature on for an end user. Without one, `target` is null and `reason` says why.
 * `alternatives` are the best purchases of other plans. `complete` is false if the search was cut off. Source: contract offers §2.
 */
export type Unlock = Changes &
  Readonly<
    {
      featureId: string;
      service: string | null;
      reason: "UNKNOWN_FEATURE" | "NO_EXPRESSION" | "ALREADY_ON" | "BUDGET" | "NOT_OFFERED" | "UNDECIDED" | null;
      price: Price | null;
      missing?: Amounts;
      alternatives: readonly Purchase[];
    } & Record<"current" | "target", Configuration | null> &
      Record<"contact" | "complete", boolean>
  >;

/** A value, and the English text that shows it. */
export type Shown<T = Value> = Readonly<{ value: T; text: string }>;

type Named = Readonly<{ name: string; description: string | null }>;
type Item = Named & Billed & Readonly<{ price: Shown<number | string>; unit: string; contact: boolean }>;
type Row = Named & Readonly<Record<"id" | "label" | "type", string> & { valueType: "BOOLEAN" | "NUMERIC" | "TEXT" }>;
type List<T, K extends string> = readonly (Shown<T> & Readonly<Record<K, string>>)[];
type ByName<T = Value> = Readonly<Record<string, Shown<T>>>;

/**
 * A plan, with its values in the order of the offer's features and limits. `select` is that choice. Offers for a
 * user have its `scenario` for them.
 */
export type OfferedPlan = Item &
  Readonly<
    Record<"features" | "limits", readonly Shown[]> & {
      select: Configuration;
      scenario?: "current" | "contact" | "upgrade" | "downgrade" | "switch";
    }
  >;

/**
 * An add-on, with its values by name. `select` is null if the user cannot add it; offers for a user have
 * the units that are `held`. `max` is null without bound.
 */
export type OfferedAddOn = Item &
  Readonly<
    Record<"availableFor" | "dependsOn" | "excludes", readonly string[]> &
      Record<"features" | "limits", ByName> & {
        quantity: { min: number; max: number | null; step: number };
        extensions: ByName<number>;
        select: Configuration | null;
        held?: number;
      }
  >;

/**
 * Everything that a price page of one service shows. `createdAt` is in ISO 8601, `billing` has a factor on the price per
 * period. Public offers have no `versions`, the active ones, newest first. Offers for a user have their `current`
 * subscription, null without one. Source: contract offers §3.
 */
export type Offer = Readonly<
  Record<"service" | "key" | "pricingVersion" | "createdAt" | "currency", string> & {
    versions?: readonly string[];
    billing: Amounts;
    tags: readonly string[];
    features: readonly (Row & Readonly<{ tag: string | null }>)[];
    limits: readonly (Row &
      Readonly<{
        unit: string;
        period: Readonly<{ value: number; unit: string }> | null;
        rates?: List<number, "unit">;
        budgets?: List<number | string, "name">;
      }>)[];
    plans: readonly OfferedPlan[];
    addOns: readonly OfferedAddOn[];
    current?: (Configuration & { expired: boolean }) | null;
  }
>;
