import { expect, test } from "vitest";
import {
  eventOf,
  signStandard,
  signStripe,
  STANDARD_SECRET,
  STRIPE_SECRET,
  subscriptionOf,
} from "../support/billing.ts";
import { run, type SignatureCase } from "./billing-cases.ts";
import { runOn } from "./run-on.ts";
import { RUNTIMES } from "./runtimes.ts";

/* Messages of payment providers, verified and read on each runtime as on this one. */

const NOW = new Date("2025-06-15T10:00:00.000Z");

async function cases(): Promise<SignatureCase[]> {
  const body = JSON.stringify(
    eventOf("customer.subscription.created", subscriptionOf({ metadata: { userId: "Zażółć" } }), NOW, "evt"),
  );
  const stripe = { provider: "stripe" as const, body, headers: { "stripe-signature": await signStripe(body, NOW) } };
  const standard = { provider: "standard" as const, body, headers: signStandard(body, NOW, "msg_1") };
  const at = (seconds: number) => NOW.getTime() + seconds * 1000;
  return [
    { ...stripe, secrets: [STRIPE_SECRET], now: at(0) },
    { ...stripe, secrets: ["whsec_other", STRIPE_SECRET], now: at(300) },
    { ...stripe, secrets: [STRIPE_SECRET], now: at(301) },
    { ...stripe, secrets: ["whsec_other"], now: at(0) },
    { ...stripe, body: `${body} `, secrets: [STRIPE_SECRET], now: at(0) },
    { ...standard, secrets: [STANDARD_SECRET], now: at(0) },
    { ...standard, secrets: ["whsec_AAAA"], now: at(0) },
  ];
}

test.each([...RUNTIMES])(
  "%s accepts and refuses the same signatures",
  async (runtime) => {
    const given = await cases();
    const expected = await run(given);
    expect(expected.map((message) => message !== null)).toEqual([true, true, false, false, false, true, false]);
    expect(await runOn(runtime, "billing-cases.ts", given)).toEqual(JSON.parse(JSON.stringify(expected)));
  },
  120_000,
);
