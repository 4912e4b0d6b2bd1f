import type { Period } from "../pricing/model.ts";
import { unstorablePath } from "../storable.ts";

/*
 * Messages of payment providers in one form. Only the adapter of a provider knows its names. Source: contract billing §3.
 */

export const BILLING_PROVIDERS = ["stripe", "standard"] as const;
export type BillingProvider = (typeof BILLING_PROVIDERS)[number];

export const BILLING_OUTCOMES = ["applied", "unchanged", "stale", "waiting", "unmapped", "failed", "ignored"] as const;
export type BillingOutcome = (typeof BILLING_OUTCOMES)[number];

/** `past_due` keeps everything for the days of grace. The last four give nothing. */
export const SUBSCRIPTION_STATUSES = [
  "active",
  "trialing",
  "past_due",
  "unpaid",
  "paused",
  "incomplete",
  "ended",
] as const;
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number];

/** A bought price. */
export interface BilledItem {
  /** Empty if the message has no text that can be an id. */
  readonly price: string;
  readonly quantity: number;
}

/** The state of a subscription. Moments are milliseconds since 1970. */
export interface SubscriptionContent {
  readonly kind: "subscription";
  readonly subscription: string;
  readonly customer: string | null;
  /** Null: another message names the user. */
  readonly userId: string | null;
  readonly status: SubscriptionStatus;
  readonly items: readonly BilledItem[];
  readonly periodStart: number | null;
  readonly periodEnd: number | null;
  /** Null: one that follows from the ends of the period. */
  readonly renewalPeriod: Period | null;
  /** Moment at which the subscription will end. Null: it renews. */
  readonly endsAt: number | null;
  /** Moment at which it ended. Null: the message's. */
  readonly endedAt: number | null;
  /** Moment of its creation. Null: that of its oldest message. */
  readonly startedAt: number | null;
}

/** Names the user of a subscription or customer. */
export interface LinkContent {
  readonly kind: "link";
  readonly subscription: string | null;
  readonly customer: string | null;
  readonly userId: string;
}

/** A payment that is made once. */
export interface PaymentContent {
  readonly kind: "payment";
  readonly payment: string;
  readonly customer: string | null;
  readonly userId: string | null;
  readonly items: readonly BilledItem[];
}

/** Takes a payment back. */
export interface RefundContent {
  readonly kind: "refund";
  readonly payment: string;
}

export type BillingContent = SubscriptionContent | LinkContent | PaymentContent | RefundContent;

/** A reason to ignore a message, or a sentence on what is wrong with it. */
export type Unread =
  | { readonly kind: "ignored"; readonly reason: string }
  | { readonly kind: "failed"; readonly reason: string };

/** A message as an adapter reads it. */
export interface BillingMessage {
  /** The provider's id, which a repetition repeats. */
  readonly id: string;
  readonly type: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly content: BillingContent | Unread;
}

/** The raw message of a request. Header names are in lower case. */
export interface RawMessage {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly header: (name: string) => string | undefined;
}

/** Where a subscription names its user: `metadata.<key>`, `customer` or `client_reference_id`. */
export type UserIdRule = string;

/** Names and signatures of a payment provider, behind one form for all. */
export interface ProviderAdapter {
  /** Returns a sentence on what is wrong with a signing secret; undefined for a good one. */
  readonly secretProblem: (secret: string) => string | undefined;
  /** True if one of the secrets signed the message at most {@link TOLERANCE_MS} from `now`. */
  readonly verify: (raw: RawMessage, secrets: readonly string[], now: Date) => Promise<boolean>;
  /** Reads a verified message. Returns a sentence for a body without an id. */
  readonly read: (raw: RawMessage, userId: UserIdRule) => BillingMessage | string;
}

/** A message may be so much older or newer than the server's clock. */
export const TOLERANCE_MS = 300_000;

/** Longest id of a message, subscription, payment, customer or price. */
const MAX_ID_LENGTH = 255;

/** Returns the text if it can be an id of a provider. */
export const idIn = (value: unknown): string | null =>
  typeof value === "string" && value !== "" && value.length <= MAX_ID_LENGTH ? value : null;

/**
 * Returns the message as it can be stored: with a failed content in place of one with an unstorable text. Returns a sentence
 * if the id or the type is such a text.
 */
export function storableMessage(message: BillingMessage): BillingMessage | string {
  const { id, type, content } = message;
  if (unstorablePath([id, type]) !== undefined) return `The id or the type ${CANNOT_BE_STORED}`;
  return unstorablePath(content) !== undefined
    ? { ...message, content: { kind: "failed", reason: `A text of the message ${CANNOT_BE_STORED}` } }
    : message;
}

const CANNOT_BE_STORED = "contains a character that cannot be stored";
