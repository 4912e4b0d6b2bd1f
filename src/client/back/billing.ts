/** Period on the calendar: the n-th end is the start and n periods, clamped to the last day of the month. */
export interface RenewalPeriod {
  /** 1 to 120. */
  readonly value: number;
  readonly unit: "DAY" | "MONTH" | "YEAR";
}

/** The payment provider's subscription that a contract follows. */
export interface ContractBilling {
  readonly provider: "stripe" | "standard";
  readonly subscription: string;
  readonly customer: string | null;
  /** `past_due` keeps everything for the days of grace. The last four give nothing. */
  readonly status: "active" | "trialing" | "past_due" | "unpaid" | "paused" | "incomplete" | "ended";
  /** Start of the subscription, ISO 8601 in UTC. */
  readonly since: string;
}
