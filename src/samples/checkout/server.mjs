import { serve } from "@hono/node-server";
import { Faregate } from "faregate";
import { Hono } from "hono";
import { Stripe } from "stripe";

/*
 * A back end that sells what unlocks a feature, or what a price page shows. Stripe's webhooks go straight to Faregate, which
 * then moves the contract; this server only receives them to thank the customer. The header stands in for your own sign-in.
 */

const { features, services } = new Faregate({ url: process.env.FAREGATE_URL, apiKey: process.env.FAREGATE_KEY });
const options = process.env.STRIPE_HOST === undefined ? {} : { host: process.env.STRIPE_HOST, protocol: "http" };
const stripe = new Stripe(process.env.STRIPE_KEY, { ...options, port: process.env.STRIPE_PORT });
const app = new Hono();
const userOf = (c) => c.req.header("x-user") ?? "ada";

/** Sends the customer to a checkout of these prices. A portal changes the items of a subscription that exists. */
async function checkout(c, prices) {
  if (prices?.stripe === undefined) return c.json({ error: "Nothing on sale unlocks this. Ask us." }, 404);
  const user = userOf(c);
  const session = await stripe.checkout.sessions.create({
    mode: "subscription",
    client_reference_id: user,
    line_items: prices.stripe,
    subscription_data: { metadata: { userId: user } },
    success_url: "https://example.com/thanks",
  });
  return c.json({ url: session.url }, 201);
}

/** Buys the smallest purchase that turns a feature on. */
app.post("/api/unlock/:feature", async (c) => {
  const { billing } = await features.unlock(userOf(c), c.req.param("feature"));
  return checkout(c, billing);
});

/** Buys a plan of the price page. */
app.post("/api/plans/:plan", async (c) => {
  const { plans } = await services.offer("tasker", { userId: userOf(c) });
  return checkout(c, plans.find(({ name }) => name === c.req.param("plan"))?.billing);
});

/** Lets a customer with a subscription change or cancel it. */
app.post("/api/portal", async (c) => {
  const { customer } = await c.req.json();
  const session = await stripe.billingPortal.sessions.create({ customer, return_url: "https://example.com/account" });
  return c.json({ url: session.url }, 201);
});

/** Receives Stripe's webhooks too: several endpoints can listen. */
app.post("/webhooks/stripe", async (c) => {
  const signature = c.req.header("stripe-signature") ?? "";
  try {
    const event = await stripe.webhooks.constructEventAsync(await c.req.text(), signature, process.env.STRIPE_SECRET);
    if (event.type === "checkout.session.completed") console.log(`Thank you, ${event.data.object.client_reference_id}`);
    return c.json({ received: true });
  } catch {
    return c.json({ error: "The signature is not valid" }, 400);
  }
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 4000) }, ({ port }) =>
  console.log(`The checkout is listening on port ${port}`),
);
