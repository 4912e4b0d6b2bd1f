import type { Period } from "../pricing/model.ts";
import {
  type BilledItem,
  type BillingMessage,
  idIn,
  type LinkContent,
  type PaymentContent,
  type ProviderAdapter,
  type RefundContent,
  type SubscriptionContent,
  type SubscriptionStatus,
  TOLERANCE_MS,
  type UserIdRule,
} from "./message.ts";
import { hexIn, isSigned, jsonObjectIn, MAX_SIGNATURES, objectIn } from "./signature.ts";

/*
 * Stripe's webhooks. The only file that knows their names. Source: contract billing §3.
 */

type Fields = Readonly<Record<string, unknown>>;
type Content = BillingMessage["content"];

const SUBSCRIPTION_TYPES: ReadonlySet<string> = new Set(
  ["created", "updated", "deleted", "paused", "resumed"].map((what) => `customer.subscription.${what}`),
);
/** Sent where a payment takes days: the session then completes unpaid. */
const PAID_LATER = "checkout.session.async_payment_succeeded";

const STATUSES: ReadonlyMap<unknown, SubscriptionStatus> = new Map([
  ["active", "active"],
  ["trialing", "trialing"],
  ["past_due", "past_due"],
  ["unpaid", "unpaid"],
  ["paused", "paused"],
  ["incomplete", "incomplete"],
  ["incomplete_expired", "ended"],
  ["canceled", "ended"],
]);

const UNITS: ReadonlyMap<unknown, Period> = new Map([
  ["day", { value: 1, unit: "DAY" }],
  ["week", { value: 7, unit: "DAY" }],
  ["month", { value: 1, unit: "MONTH" }],
  ["year", { value: 1, unit: "YEAR" }],
]);

/** Longest period by unit: Stripe bills at least every three years. */
const MAX_PERIOD: Readonly<Partial<Record<Period["unit"], number>>> = { DAY: 1096, MONTH: 36, YEAR: 3 };

/** Reads the period of a recurring price. Null for one that Stripe does not have. */
function periodIn(recurring: Fields | undefined): Period | null {
  const { interval, interval_count: count = 1 } = recurring ?? {};
  const unit = UNITS.get(interval);
  if (unit === undefined || typeof count !== "number" || !Number.isInteger(count) || count < 1) return null;
  const value = unit.value * count;
  return value <= (MAX_PERIOD[unit.unit] ?? 0) ? { ...unit, value } : null;
}

const ignored = (reason: string): Content => ({ kind: "ignored", reason });
const failed = (reason: string): Content => ({ kind: "failed", reason });

/** Converts seconds to milliseconds; null for anything but a moment that can be stored. */
function momentIn(value: unknown): number | null {
  return typeof value === "number" && value > 0 && value < 253_402_300_800 ? value * 1000 : null;
}

/** Reads an id that may stand there as the whole object. */
const idOf = (value: unknown): string | null => idIn(value) ?? idIn(objectIn(value)?.["id"]);

const listIn = (value: unknown): readonly unknown[] => {
  const data = objectIn(value)?.["data"];
  return Array.isArray(data) ? data : [];
};

/** Reads items of a subscription or session. A price without quantity is metered, and bought once. */
const itemsIn = (value: unknown): readonly BilledItem[] =>
  listIn(value).map((item) => {
    const { price, quantity = 1 } = objectIn(item) ?? {};
    return { price: idOf(price) ?? "", quantity: typeof quantity === "number" ? quantity : Number.NaN };
  });

/** Reads the user where the connection says. A link of a checkout takes the place of a missing one. */
function userIdIn(object: Fields, rule: UserIdRule): string | null {
  if (rule === "customer") return idOf(object["customer"]);
  if (!rule.startsWith("metadata.")) return null;
  const value = objectIn(object["metadata"])?.[rule.slice("metadata.".length)];
  return typeof value === "string" && value !== "" ? value : null;
}

function subscriptionIn(object: Fields, rule: UserIdRule): SubscriptionContent | Content {
  const subscription = idIn(object["id"]);
  const status = STATUSES.get(object["status"]);
  if (subscription === null || status === undefined) return failed("The subscription has no id or no known status");
  const items = listIn(object["items"]).map((item) => objectIn(item) ?? {});
  const [first] = items;
  // Since 2025 the items have the period, before that the subscription.
  const end = (name: string) => momentIn(object[name]) ?? momentIn(first?.[name]);
  const periodEnd = end("current_period_end");
  return {
    kind: "subscription",
    subscription,
    customer: idOf(object["customer"]),
    userId: userIdIn(object, rule),
    status,
    items: itemsIn(object["items"]),
    periodStart: end("current_period_start"),
    periodEnd,
    renewalPeriod: periodIn(objectIn(objectIn(first?.["price"])?.["recurring"])),
    endsAt: momentIn(object["cancel_at"]) ?? (object["cancel_at_period_end"] === true ? periodEnd : null),
    endedAt: momentIn(object["ended_at"]),
    startedAt: momentIn(object["created"]),
  };
}

function checkoutIn(object: Fields, rule: UserIdRule): LinkContent | PaymentContent | Content {
  const { mode } = object;
  const customer = idOf(object["customer"]);
  const reference = object["client_reference_id"];
  const referred = typeof reference === "string" && reference !== "" ? reference : null;
  // Where customers are the users, a checkout may refer to anything else, such as an order.
  const named = (rule === "customer" ? customer : null) ?? referred ?? userIdIn(object, rule);
  if (mode === "subscription") {
    if (named === null) return ignored("The checkout names no user");
    return { kind: "link", subscription: idOf(object["subscription"]), customer, userId: named };
  }
  if (mode !== "payment") return ignored("The checkout is neither a subscription nor a payment");
  if (object["payment_status"] === "unpaid") return ignored("The payment is not made yet");
  const payment = idOf(object["payment_intent"]) ?? idIn(object["id"]);
  if (payment === null) return failed("The checkout has no id");
  const price = idIn(objectIn(object["metadata"])?.["price"]);
  const bought = itemsIn(object["line_items"]);
  const items = bought.length > 0 || price === null ? bought : [{ price, quantity: 1 }];
  if (items.length === 0) return ignored("The checkout says neither its line items nor metadata.price");
  return { kind: "payment", payment, customer, userId: named, items };
}

function refundIn(object: Fields): RefundContent | Content {
  const payment = idOf(object["payment_intent"]);
  if (payment === null) return ignored("The charge belongs to no payment");
  if (object["refunded"] === false) return ignored("A part of a payment that is refunded takes nothing back");
  return { kind: "refund", payment };
}

function contentOf(type: string, object: Fields, rule: UserIdRule): Content {
  if (SUBSCRIPTION_TYPES.has(type)) return subscriptionIn(object, rule);
  if (type === "checkout.session.completed" || type === PAID_LATER) return checkoutIn(object, rule);
  if (type === "charge.refunded") return refundIn(object);
  return ignored(`Messages of type ${type} do not matter`);
}

export const stripe: ProviderAdapter = {
  secretProblem: () => undefined,
  async verify({ body, header }, secrets, now) {
    const parts = (header("stripe-signature") ?? "").split(",").map((part) => part.trim().split("="));
    const valueOf = (name: string) =>
      parts.flatMap(([key, value]) => (key === name && value !== undefined ? [value] : []));
    const [time = ""] = valueOf("t");
    if (!/^\d{1,12}$/.test(time) || Math.abs(now.getTime() - Number(time) * 1000) > TOLERANCE_MS) return false;
    const signatures = valueOf("v1")
      .slice(0, MAX_SIGNATURES)
      .flatMap((text) => hexIn(text) ?? []);
    const keys = secrets.map((secret) => new TextEncoder().encode(secret));
    return isSigned({ prefix: `${time}.`, body }, keys, signatures);
  },
  read({ body }, rule) {
    const event = jsonObjectIn(body);
    if (event === undefined) return "The body is not a JSON object";
    const id = idIn(event["id"]);
    const type = idIn(event["type"]);
    if (id === null || type === null) return "The body has no id or no type";
    const createdAt = momentIn(event["created"]);
    const object = objectIn(objectIn(event["data"])?.["object"]);
    if (createdAt === null || object === undefined) {
      return { id, type, createdAt: 0, content: failed("The message has no moment or no object") };
    }
    return { id, type, createdAt, content: contentOf(type, object, rule) };
  },
};
