import { instantIn } from "../instant.ts";
import {
  type BilledItem,
  type BillingMessage,
  idIn,
  type ProviderAdapter,
  type SubscriptionStatus,
  TOLERANCE_MS,
} from "./message.ts";
import { base64In, isSigned, jsonObjectIn, MAX_SIGNATURES, objectIn } from "./signature.ts";

/*
 * Normalized messages of any provider, signed as Standard Webhooks defines it. Source: contract billing §3.
 */

type Fields = Readonly<Record<string, unknown>>;
type Content = BillingMessage["content"];

const STATUSES: readonly SubscriptionStatus[] = ["active", "trialing", "past_due", "ended"];
const PREFIX = "whsec_";

const failed = (reason: string): Content => ({ kind: "failed", reason });

const keyOf = (secret: string) => base64In(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret);

/** Reads a moment since 1970, as Stripe's are. The zero of other languages, such as the year 1, is none. */
function momentIn(value: unknown): number | undefined {
  const moment = typeof value === "string" ? instantIn(value)?.getTime() : undefined;
  return moment === undefined || moment < 0 ? undefined : moment;
}

/** Reads the id of an end user; its length is checked where it becomes one of a contract. */
const userIdIn = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function itemIn(value: unknown): BilledItem {
  const { price, quantity = 1 } = objectIn(value) ?? {};
  return { price: idIn(price) ?? "", quantity: typeof quantity === "number" ? quantity : Number.NaN };
}

function subscriptionIn(data: Fields): Content {
  const subscription = idIn(data["subscription"]);
  if (subscription === null) return failed("data.subscription must be a text of 1 to 255 characters");
  const status = STATUSES.find((each) => each === data["status"]);
  if (status === undefined) return failed(`data.status must be one of ${STATUSES.join(", ")}`);
  const userId = userIdIn(data["userId"]);
  if (userId === null) return failed("data.userId must be a text");
  const { items } = data;
  if (!Array.isArray(items)) return failed("data.items must be a list of {price, quantity}");
  const [periodStart, periodEnd] = [momentIn(data["periodStart"]), momentIn(data["periodEnd"])];
  if (periodStart === undefined || periodEnd === undefined) {
    return failed("data.periodStart and data.periodEnd must be ISO 8601 dates since 1970");
  }
  const endsAt = data["endsAt"] ?? null;
  const end = endsAt === null ? null : momentIn(endsAt);
  if (end === undefined) return failed("data.endsAt must be an ISO 8601 date since 1970, or null");
  return {
    kind: "subscription",
    subscription,
    customer: null,
    userId,
    status,
    items: items.map(itemIn),
    periodStart,
    periodEnd,
    renewalPeriod: null,
    endsAt: end,
    endedAt: null,
    startedAt: null,
  };
}

function paymentIn(data: Fields): Content {
  const payment = idIn(data["payment"]);
  const userId = userIdIn(data["userId"]);
  if (payment === null) return failed("data.payment must be a text of 1 to 255 characters");
  if (userId === null) return failed("data.userId must be a text");
  return { kind: "payment", payment, customer: null, userId, items: [itemIn(data)] };
}

function refundIn(data: Fields): Content {
  const payment = idIn(data["payment"]);
  return payment === null ? failed("data.payment must be a text of 1 to 255 characters") : { kind: "refund", payment };
}

const READERS: Readonly<Record<string, (data: Fields) => Content>> = {
  subscription: subscriptionIn,
  payment: paymentIn,
  refund: refundIn,
};

export const standard: ProviderAdapter = {
  secretProblem: (secret) =>
    (keyOf(secret)?.length ?? 0) > 0 ? undefined : "The secret field must be whsec_ and a key in base64",
  async verify({ body, header }, secrets, now) {
    const id = header("webhook-id") ?? "";
    const time = header("webhook-timestamp") ?? "";
    if (id === "" || !/^\d{1,12}$/.test(time)) return false;
    if (Math.abs(now.getTime() - Number(time) * 1000) > TOLERANCE_MS) return false;
    const signatures = (header("webhook-signature") ?? "")
      .split(" ")
      .slice(0, MAX_SIGNATURES)
      .flatMap((text) => (text.startsWith("v1,") ? (base64In(text.slice(3)) ?? []) : []));
    const keys = secrets.flatMap((secret) => keyOf(secret) ?? []);
    return isSigned({ prefix: `${id}.${time}.`, body }, keys, signatures);
  },
  read({ body, header }) {
    const message = jsonObjectIn(body);
    // The signature covers the header, so that a sender without an id in the body has one.
    const id = idIn(message?.["id"]) ?? idIn(header("webhook-id"));
    if (id === null) return "The message has no id";
    const failure = (reason: string): BillingMessage => ({
      id,
      type: "unknown",
      createdAt: 0,
      content: failed(reason),
    });
    if (message === undefined) return failure("The body is not a JSON object");
    const type = idIn(message["type"]);
    if (type === null) return failure("type must be a text of 1 to 255 characters");
    const reader = Object.hasOwn(READERS, type) ? READERS[type] : undefined;
    const createdAt = momentIn(message["createdAt"]);
    if (reader === undefined) {
      const content: Content = { kind: "ignored", reason: `Messages of type ${type} do not matter` };
      return { id, type, createdAt: createdAt ?? 0, content };
    }
    const data = objectIn(message["data"]);
    if (createdAt === undefined) return { ...failure("createdAt must be an ISO 8601 date since 1970"), type };
    if (data === undefined) return { ...failure("data must be an object"), type };
    return { id, type, createdAt, content: reader(data) };
  },
};
