import { describe, expect, it } from "vitest";
import { ADAPTERS } from "../../../src/core/billing/adapters.ts";
import type { RawMessage } from "../../../src/core/billing/message.ts";
import {
  eventOf,
  signStandard,
  signStripe,
  STANDARD_SECRET,
  STRIPE_SECRET,
  subscriptionOf,
} from "../../support/billing.ts";

/* Adapters of providers, against the packages that the providers publish. */

const NOW = new Date("2025-06-15T10:00:00.000Z");
const { stripe, standard } = ADAPTERS;

const rawOf = (body: string, headers: Record<string, string> = {}): RawMessage => ({
  body: new TextEncoder().encode(body),
  header: (name) => headers[name],
});

describe("stripe", () => {
  const event = eventOf("customer.subscription.updated", subscriptionOf({ cancel_at_period_end: true }), NOW, "evt_1");
  const text = JSON.stringify(event);

  it("accepts what the stripe package signs, for 300 seconds", async () => {
    const raw = rawOf(text, { "stripe-signature": await signStripe(text, NOW) });
    const at = (seconds: number) => stripe.verify(raw, [STRIPE_SECRET], new Date(NOW.getTime() + seconds * 1000));
    expect(await Promise.all([-301, -300, 0, 300, 301].map(at))).toEqual([false, true, true, true, false]);
    expect(await stripe.verify(raw, ["whsec_other", STRIPE_SECRET], NOW)).toBe(true);
    expect(await stripe.verify(raw, ["whsec_other"], NOW)).toBe(false);
  });

  it("refuses every body that differs in one byte", async () => {
    const signature = await signStripe(text, NOW);
    for (let at = 0; at < text.length; at += 37) {
      const changed = `${text.slice(0, at)}${text[at] === " " ? "x" : " "}${text.slice(at + 1)}`;
      expect(await stripe.verify(rawOf(changed, { "stripe-signature": signature }), [STRIPE_SECRET], NOW)).toBe(false);
    }
  });

  it.each(["", "t=", "v1=00", "t=1750000000", "t=x,v1=00", "t=1750000000,v1=", "t=1750000000,v0=00"])(
    "refuses the header %j",
    async (header) => {
      expect(await stripe.verify(rawOf(text, { "stripe-signature": header }), [STRIPE_SECRET], NOW)).toBe(false);
    },
  );

  it("reads a subscription with the period of its items", () => {
    expect(stripe.read(rawOf(text), "metadata.userId")).toEqual({
      id: "evt_1",
      type: "customer.subscription.updated",
      createdAt: NOW.getTime(),
      content: {
        kind: "subscription",
        subscription: "sub_1",
        customer: "cus_1",
        userId: "ada",
        status: "active",
        items: [{ price: "price_pro", quantity: 1 }],
        periodStart: NOW.getTime(),
        periodEnd: Date.UTC(2025, 6, 15, 10),
        renewalPeriod: { value: 1, unit: "MONTH" },
        endsAt: Date.UTC(2025, 6, 15, 10),
        endedAt: null,
        startedAt: NOW.getTime(),
      },
    });
  });

  const withField = (change: (object: Record<string, unknown>, price: Record<string, unknown>) => void) => {
    const object = subscriptionOf();
    change(object as never, object.items.data[0]?.price as never);
    return stripe.read(rawOf(JSON.stringify(eventOf("customer.subscription.updated", object, NOW))), "metadata.userId");
  };

  it.each(["constructor", "__proto__", "toString", "", null, 5])("knows no status %j", (status) => {
    expect(withField((object) => (object["status"] = status))).toMatchObject({ content: { kind: "failed" } });
  });

  it.each([
    ["week", 2, { value: 14, unit: "DAY" }],
    ["year", undefined, { value: 1, unit: "YEAR" }],
    ["constructor", 1, null],
    ["__proto__", 1, null],
    ["month", 0, null],
    ["month", -1, null],
    ["month", 1.5, null],
    ["month", "1", null],
    ["day", 1e9, null],
    ["day", 1096, { value: 1096, unit: "DAY" }],
    ["week", 157, null],
    ["month", 36, { value: 36, unit: "MONTH" }],
    ["month", 37, null],
    ["year", 3, { value: 3, unit: "YEAR" }],
    ["year", 4, null],
  ])("reads the period of %j × %j as %j", (interval, interval_count, renewalPeriod) => {
    const read = withField((_, price) => (price["recurring"] = { interval, interval_count }));
    expect(read).toMatchObject({ content: { renewalPeriod } });
  });

  it.each([
    ["customer", "cus_1"],
    ["metadata.account", null],
    ["client_reference_id", null],
  ])("reads the user by the rule %s", (rule, userId) => {
    expect(stripe.read(rawOf(text), rule)).toMatchObject({ content: { userId } });
  });

  it("reads checkouts as links and payments, and refunds", () => {
    const read = (type: Parameters<typeof eventOf>[0], object: object) => {
      const message = stripe.read(rawOf(JSON.stringify(eventOf(type, object, NOW))), "metadata.userId");
      return typeof message === "string" ? message : message.content;
    };
    const session = { id: "cs_1", customer: "cus_1", client_reference_id: "ada" };
    expect(
      read("checkout.session.completed", { ...session, mode: "subscription", subscription: { id: "sub_1" } }),
    ).toEqual({
      kind: "link",
      subscription: "sub_1",
      customer: "cus_1",
      userId: "ada",
    });
    const paid = {
      ...session,
      mode: "payment",
      payment_status: "paid",
      payment_intent: "pi_1",
      metadata: { price: "price_c" },
    };
    expect(read("checkout.session.completed", paid)).toEqual({
      kind: "payment",
      payment: "pi_1",
      customer: "cus_1",
      userId: "ada",
      items: [{ price: "price_c", quantity: 1 }],
    });
    expect(read("checkout.session.completed", { ...paid, payment_status: "unpaid" })).toMatchObject({
      kind: "ignored",
    });
    expect(read("charge.refunded", { payment_intent: "pi_1", refunded: true })).toEqual({
      kind: "refund",
      payment: "pi_1",
    });
    expect(read("charge.refunded", { payment_intent: "pi_1", refunded: false })).toMatchObject({ kind: "ignored" });
    expect(read("invoice.paid", {})).toEqual({
      kind: "ignored",
      reason: "Messages of type invoice.paid do not matter",
    });
  });

  it.each([
    ["customer", "cus_1", "cus_1"],
    ["customer", null, "order-17"],
    ["metadata.userId", "cus_1", "order-17"],
    ["client_reference_id", "cus_1", "order-17"],
  ])("reads the user of a checkout by the rule %s, with the customer %s, as %s", (rule, customer, userId) => {
    const session = {
      id: "cs_1",
      customer,
      client_reference_id: "order-17",
      mode: "payment",
      metadata: { price: "p" },
    };
    const text = JSON.stringify(eventOf("checkout.session.completed", session, NOW));
    expect(stripe.read(rawOf(text), rule)).toMatchObject({ content: { kind: "payment", userId } });
  });

  it.each([
    ["", "The body is not a JSON object"],
    ["[]", "The body is not a JSON object"],
    ["{", "The body is not a JSON object"],
    ["{}", "The body has no id or no type"],
  ])("says what is wrong with the body %j", (body, sentence) => {
    expect(stripe.read(rawOf(body), "customer")).toBe(sentence);
  });
});

describe("standard", () => {
  const message = {
    id: "msg_1",
    type: "subscription",
    createdAt: NOW.toISOString(),
    data: {
      subscription: "s",
      userId: "ada",
      status: "active",
      items: [{ price: "p" }],
      periodStart: "2025-06-15T10:00:00Z",
      periodEnd: "2025-07-15T10:00:00Z",
      endsAt: null,
    },
  };
  const text = JSON.stringify(message);

  it("accepts what the standardwebhooks package signs", async () => {
    const headers = signStandard(text, NOW, "msg_1");
    expect(await standard.verify(rawOf(text, headers), [STANDARD_SECRET], NOW)).toBe(true);
    expect(await standard.verify(rawOf(`${text} `, headers), [STANDARD_SECRET], NOW)).toBe(false);
    expect(await standard.verify(rawOf(text, { ...headers, "webhook-id": "msg_2" }), [STANDARD_SECRET], NOW)).toBe(
      false,
    );
    const rotated = { ...headers, "webhook-signature": `v1,AAAA ${headers["webhook-signature"]}` };
    expect(await standard.verify(rawOf(text, rotated), [STANDARD_SECRET], NOW)).toBe(true);
    expect(await standard.verify(rawOf(text, headers), [STANDARD_SECRET], new Date(NOW.getTime() + 301_000))).toBe(
      false,
    );
    expect(await standard.verify(rawOf(text), [STANDARD_SECRET], NOW)).toBe(false);
  });

  it("reads subscriptions, payments and refunds", () => {
    const read = (body: object) => standard.read(rawOf(JSON.stringify(body)), "customer");
    expect(read(message)).toMatchObject({
      id: "msg_1",
      content: { subscription: "s", userId: "ada", status: "active" },
    });
    const payment = { ...message, type: "payment", data: { payment: "x", userId: "ada", price: "p", quantity: 2 } };
    expect(read(payment)).toMatchObject({ content: { payment: "x", items: [{ price: "p", quantity: 2 }] } });
    expect(read({ ...message, type: "refund", data: { payment: "x" } })).toMatchObject({
      content: { kind: "refund", payment: "x" },
    });
    expect(read({ ...message, type: "toString" })).toMatchObject({ content: { kind: "ignored" } });
  });

  const PERIOD = "data.periodStart and data.periodEnd must be ISO 8601 dates since 1970";
  it.each([
    [{ createdAt: "soon" }, "createdAt must be an ISO 8601 date since 1970"],
    [{ data: [] }, "data must be an object"],
    [{ data: { ...message.data, subscription: "" } }, "data.subscription must be a text of 1 to 255 characters"],
    [{ data: { ...message.data, status: "paused" } }, "data.status must be one of active, trialing, past_due, ended"],
    [{ data: { ...message.data, userId: 5 } }, "data.userId must be a text"],
    [{ data: { ...message.data, items: {} } }, "data.items must be a list of {price, quantity}"],
    [{ data: { ...message.data, periodEnd: null } }, PERIOD],
    [{ data: { ...message.data, periodStart: "0001-01-01T00:00:00Z" } }, PERIOD],
    [{ data: { ...message.data, endsAt: 5 } }, "data.endsAt must be an ISO 8601 date since 1970, or null"],
  ])("says what is wrong with %j", (fields, reason) => {
    expect(standard.read(rawOf(JSON.stringify({ ...message, ...fields })), "customer")).toMatchObject({
      id: "msg_1",
      content: { kind: "failed", reason },
    });
  });
});
