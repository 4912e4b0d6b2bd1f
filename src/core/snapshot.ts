import type { EvaluatedPricing, GrantedRecord } from "./pricing/evaluated.ts";

/**
 * The answer of POST /snapshot: contracts of end users as far as evaluations without balances need them. Source: contract
 * tokens-and-leases §4.
 */

/** Raised when an engine of before would read or answer differently. */
export const SNAPSHOT_FORMAT = 1;

/** A contracted service by the hashes of its pricing and its granted values. */
export interface SnapshotEntryService {
  /** Service name in lower case. */
  readonly service: string;
  readonly pricing: string;
  readonly grant: string;
}

export interface SnapshotEntry {
  readonly userId: string;
  /** Null without a contract. */
  readonly contractId: string | null;
  /** Changes exactly when another field does. Null without a contract. */
  readonly version: string | null;
  /** Last millisecond up to which time alone changes nothing, ISO 8601. Null: never. */
  readonly validUntil: string | null;
  /** In the order of the contract. Of two services with the same feature id, the later one decides. */
  readonly services: readonly SnapshotEntryService[];
  /** Changes exactly when the budgets do; absent without any. */
  readonly budgets?: string;
  /** Status and sentence with which every evaluation of this user is refused. */
  readonly refusal: { readonly status: number; readonly error: string } | null;
}

/** The version that was sent is current. */
export interface UnchangedEntry {
  readonly userId: string;
  readonly version: string;
  readonly unchanged: true;
}

/** Did not fit into this answer: to be requested again. */
export interface DeferredEntry {
  readonly userId: string;
  readonly deferred: true;
}

export interface SnapshotAnswer {
  readonly format: number;
  /** Clock of the server, ISO 8601. */
  readonly now: string;
  readonly users: readonly (SnapshotEntry | UnchangedEntry | DeferredEntry)[];
  /** By the lower-case hex SHA-256 of their JSON text. */
  readonly pricings: Readonly<Record<string, EvaluatedPricing>>;
  readonly grants: Readonly<Record<string, GrantedRecord>>;
}
