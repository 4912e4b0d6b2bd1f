/*
 * Leases: amounts of one feature's limits that one process spends in its memory. They are held as holds are. Source:
 * contract tokens-and-leases §6.
 */

/** Open leases of one contract at most. */
export const OPEN_LEASES_PER_CONTRACT = 100;

/** From a grant or a report. */
export const MAX_LEASE_MS = 600_000;

/** Time after its end during which a lease accepts the end that its holder owes. */
export const LATE_END_MS = 86_400_000;

/** Facts of a lease that holds do not have. Its ids stay those that it was granted with. */
export interface LeaseFacts {
  readonly featureId: string;
  /** Evaluates the feature's server expression. */
  readonly server: boolean;
  /** Totals reported so far, by position in the amounts of the hold. */
  readonly spent: readonly { readonly id: string; readonly amount: number }[];
}
