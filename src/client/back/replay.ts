/** Calls that the other pricing would have denied. */
export interface DeniedCalls {
  /** Contracts with at least one of them. */
  readonly contracts: number;
  readonly movements: number;
  /** By limit id: what they would have consumed. */
  readonly amounts: Readonly<Record<string, number>>;
}

/** List prices in the range. Null: a text price, or another currency. */
export interface ReplayedPrice {
  readonly then: number | null;
  readonly replayed: number | null;
}

/** Plan and add-ons with quantities. */
interface Configuration {
  readonly plan?: string;
  readonly addOns: Readonly<Record<string, number>>;
}

/** Options of a replay. */
export interface ReplayOptions {
  /** An existing version, or `pricing`: the text of a draft. Exactly one of both. */
  readonly pricingVersion?: string;
  readonly pricing?: string;
  /** ISO 8601, at most 92 days apart. Default: the last whole month, in UTC. */
  readonly from?: string;
  readonly to?: string;
  readonly groups?: readonly {
    readonly pricingVersion?: string;
    readonly configuration: Partial<Configuration>;
    readonly target: Partial<Configuration>;
  }[];
  /** New plan by previous plan. */
  readonly renames?: Readonly<Record<string, string>>;
  /** Leaves contracts on the plan of the same name, instead of the best fit. */
  readonly keepPlans?: boolean;
  /** Most affected users to list, up to 100. Default: 20. */
  readonly top?: number;
}

/** Report of a range of time under another pricing. Source: contract replay §3. */
export interface ReplayReport {
  readonly serviceName: string;
  readonly targetVersion: string;
  readonly from: string;
  readonly to: string;
  readonly complete: boolean;
  readonly contracts: number;
  readonly movements: number;
  readonly totals: {
    readonly denied: DeniedCalls & {
      readonly reasons: Readonly<Record<"LIMIT_REACHED" | "NOT_GRANTED" | "BUDGET_REACHED" | "gone", number>>;
    };
    readonly deniedThen: Readonly<Record<string, number>>;
    readonly revenue: {
      readonly then: number;
      readonly replayed: number;
      readonly currency: string;
      readonly unpriced: number;
    };
    readonly paying: { readonly more: number; readonly less: number; readonly same: number };
  };
  readonly days: readonly { readonly day: string; readonly denied: number; readonly contracts: number }[];
  readonly groups: readonly {
    readonly pricingVersion: string;
    readonly configuration: Configuration;
    readonly target: Configuration | null;
    readonly problem: { readonly rule: string; readonly message: string } | null;
    readonly contracts: number;
    readonly denied: DeniedCalls;
    readonly firstDenialAfterDays: { readonly p10: number; readonly p50: number; readonly p90: number } | null;
    readonly price: ReplayedPrice;
  }[];
  readonly top: readonly {
    readonly userId: string;
    readonly denied: number;
    readonly firstDenialAt: string;
    readonly price: ReplayedPrice;
  }[];
  readonly unknown: readonly string[];
}
