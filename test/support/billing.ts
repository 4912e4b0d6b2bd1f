import { Stripe } from "stripe";
import { Webhook } from "standardwebhooks";
import { expect } from "vitest";
import type { MessageAnswer } from "../../src/operations/billing/receive.ts";
import type { Answer, TestApi } from "./api.ts";

/* Messages of payment providers, signed by the providers' own packages. */

export const STRIPE_SECRET = "whsec_0123456789abcdefghij";
export const STANDARD_SECRET = `whsec_${btoa("0123456789abcdefghijklmn")}`;

const stripe = new Stripe("sk_test_none");

/** Seconds since 1970. */
export const seconds = (moment: Date | string) => Math.floor(new Date(moment).getTime() / 1000);

/** Fields of a subscription that a test sets. */
export interface SubscriptionFields {
  id?: string;
  customer?: string;
  status?: Stripe.Subscription.Status;
  metadata?: Record<string, string>;
  /** Price ids, or price ids with quantities. */
  items?: readonly (string | { price: string; quantity?: number })[];
  start?: string;
  end?: string;
  interval?: Stripe.Price.Recurring.Interval;
  cancel_at_period_end?: boolean;
  cancel_at?: number | null;
  ended_at?: number | null;
  created?: number;
}

/** Builds a subscription as Stripe sends it. */
export function subscriptionOf(fields: SubscriptionFields = {}): Stripe.Subscription {
  const {
    start = "2025-06-15T10:00:00Z",
    end = "2025-07-15T10:00:00Z",
    interval = "month",
    items = ["price_pro"],
  } = fields;
  const period = { current_period_start: seconds(start), current_period_end: seconds(end) };
  return shaped<Stripe.Subscription>({
    id: fields.id ?? "sub_1",
    object: "subscription",
    customer: fields.customer ?? "cus_1",
    status: fields.status ?? "active",
    metadata: fields.metadata ?? { userId: "ada" },
    created: fields.created ?? seconds(start),
    cancel_at_period_end: fields.cancel_at_period_end ?? false,
    cancel_at: fields.cancel_at ?? null,
    ended_at: fields.ended_at ?? null,
    items: {
      object: "list",
      data: items.map((item, index) => {
        const { price, quantity = 1 } = typeof item === "string" ? { price: item } : item;
        return {
          id: `si_${index}`,
          object: "subscription_item",
          quantity,
          price: { id: price, object: "price", recurring: { interval, interval_count: 1 } },
          ...period,
        };
      }),
    },
  });
}

/** Gives a part of Stripe's object its type: it has all fields that Faregate reads. */
function shaped<T>(part: object): T {
  return part as T;
}

let messages = 0;

/** Builds an event as Stripe sends it. Default: created at the moment of `at`. */
export function eventOf(type: Stripe.Event["type"], object: object, at: Date | string, id?: string): Stripe.Event {
  messages += 1;
  return shaped<Stripe.Event>({
    id: id ?? `evt_${messages}`,
    object: "event",
    type,
    created: seconds(at),
    data: { object },
  });
}

/** Signs a body as Stripe does at this moment. */
export function signStripe(payload: string, at: Date, secret = STRIPE_SECRET): Promise<string> {
  return stripe.webhooks.generateTestHeaderStringAsync({ payload, secret, timestamp: seconds(at) });
}

/** Signs a body as Standard Webhooks defines it. */
export function signStandard(payload: string, at: Date, id: string, secret = STANDARD_SECRET): Record<string, string> {
  const signature = new Webhook(secret).sign(id, at, payload);
  return { "webhook-id": id, "webhook-timestamp": String(seconds(at)), "webhook-signature": signature };
}

/** Prices of the sample service Tasker. */
export const PRICES = {
  price_free: { service: "Tasker", plan: "FREE" },
  price_pro: { service: "Tasker", plan: "PRO" },
  price_business: { service: "Tasker", plan: "BUSINESS" },
  price_tasks: { service: "Tasker", addOn: "extraTasks" },
};

/** A connection of an organization, and calls of its provider. */
export interface TestConnection {
  id: string;
  url: string;
  /** Sends an event as Stripe does. */
  send: (event: Stripe.Event, secret?: string) => Promise<Answer<MessageAnswer>>;
  /** Sends a normalized message. */
  sendStandard: (message: { id: string }) => Promise<Answer<MessageAnswer>>;
}

/** Connects an organization to a provider. Default: that of the test's callers, by its owner. */
export async function connectProvider(
  api: Pick<TestApi, "call" | "callers" | "resources">,
  choice: object = {},
  provider: "stripe" | "standard" = "stripe",
  organizationId = api.callers.organizationId,
  key = api.callers.owner.key,
): Promise<TestConnection> {
  const secret = provider === "stripe" ? STRIPE_SECRET : STANDARD_SECRET;
  const answer = await api.call<{ id: string; url: string }>(
    "PUT",
    `/organizations/${organizationId}/billing/${provider}`,
    {
      key,
      body: { secret, prices: PRICES, ...choice },
    },
  );
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(202);
  const { id, url } = answer.body;
  const post = (body: string, headers: Record<string, string>) =>
    api.call<MessageAnswer>("POST", `/billing/${id}`, { body, headers });
  return {
    id,
    url,
    send: async (event, signedWith) => {
      const body = JSON.stringify(event);
      return post(body, { "stripe-signature": await signStripe(body, api.resources.now(), signedWith) });
    },
    sendStandard: (message) => {
      const body = JSON.stringify(message);
      return post(body, signStandard(body, api.resources.now(), message.id));
    },
  };
}
