import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { billingConnections, organizations } from "../../src/db/schema.ts";
import { sealSecret } from "../../src/operations/credentials.ts";
import { signStandard, STANDARD_SECRET } from "../support/billing.ts";
import { tasker } from "../support/contracting.ts";
import { testKeyring } from "../support/event-server.ts";
import { type Killable, startKillable } from "../support/killable.ts";

/*
 * SIGKILL hits a REST process and Postgres in turn while a payment provider sends messages, each until it is answered. What
 * is not committed is as if it had never come. Source: contract billing §5, case 9.
 */

const USERS = Array.from({ length: 12 }, (_, index) => `payer-${index}`);
const CONNECTION = "a".repeat(24);
const DAY_MS = 86_400_000;

let killable: Killable;
afterEach(() => killable.close());

async function connectStandard(): Promise<void> {
  const connection = killable.connect();
  const [organization] = await connection.db.select({ id: organizations.id }).from(organizations).limit(1);
  const [owner] = await connection.client<{ organization_id: string }[]>`select organization_id from services limit 1`;
  const organizationId = owner?.organization_id ?? organization?.id ?? "";
  await connection.db.insert(billingConnections).values({
    id: CONNECTION,
    organizationId,
    provider: "standard",
    secretSealed: await sealSecret(await testKeyring(), STANDARD_SECRET),
    secretEnd: "",
    prices: { basic: { service: "Tasker", plan: "BASIC" }, pro: { service: "Tasker", plan: "PRO" } },
    userIdRule: "customer",
    ended: { tasker: "BASIC" },
    graceDays: 7,
  });
  await connection.close();
}

/** The messages of one user's subscription, in the order of their creation. */
function lifeOf(userId: string, start: number) {
  const message = (hours: number, fields: object) => ({
    id: `${userId}-${hours}`,
    type: "subscription",
    createdAt: new Date(start + hours * 3_600_000).toISOString(),
    data: {
      subscription: `sub-${userId}`,
      userId,
      status: "active",
      items: [{ price: "basic", quantity: 1 }],
      periodStart: new Date(start).toISOString(),
      periodEnd: new Date(start + 30 * DAY_MS).toISOString(),
      endsAt: null,
      ...fields,
    },
  });
  const pro = { items: [{ price: "pro", quantity: 1 }] };
  return [message(0, {}), message(1, pro), message(2, { ...pro, status: "past_due" }), message(3, pro)];
}

/** Sends a message until it is answered, as a provider does. */
async function deliver(message: { id: string }): Promise<string> {
  for (;;) {
    const body = JSON.stringify(message);
    try {
      const answer = await fetch(killable.url(`/billing/${CONNECTION}`), {
        method: "POST",
        headers: signStandard(body, new Date(), message.id),
        body,
        signal: AbortSignal.timeout(20_000),
      });
      if (answer.status === 200) return ((await answer.json()) as { outcome: string }).outcome;
      await answer.text();
      expect(answer.status).toBe(503);
    } catch (error) {
      if (error instanceof Error && error.name === "AssertionError") throw error;
    }
    await new Promise((wait) => setTimeout(wait, 50));
  }
}

test("messages that are repeated after kills of REST and Postgres end in the contracts of an undisturbed run", async () => {
  killable = await startKillable({ pricing: tasker(), service: "tasker", plan: "BASIC", userIds: ["ada"] });
  await connectStandard();
  const start = Date.now() - DAY_MS;
  const sent = USERS.flatMap((userId) => lifeOf(userId, start)).toSorted(() => Math.random() - 0.5);
  const outcomes: string[] = [];
  const senders = Array.from({ length: 6 }, async () => {
    for (let message = sent.pop(); message !== undefined; message = sent.pop()) {
      outcomes.push(await deliver(message));
      await new Promise((wait) => setTimeout(wait, 300 * Math.random()));
    }
  });
  for (let kills = 0; kills < 4; kills += 1) {
    await new Promise((wait) => setTimeout(wait, 500));
    await (kills % 3 === 2 ? killable.killDatabase() : killable.killRest());
  }
  await Promise.all(senders);
  expect(outcomes.filter((outcome) => !["applied", "unchanged", "stale"].includes(outcome))).toEqual([]);
  const ended = new Date(start + 30 * DAY_MS).toISOString();
  for (const userId of USERS) {
    const answer = await fetch(killable.url(`/contracts/${userId}`), { headers: killable.headers });
    const contract = (await answer.json()) as Record<string, unknown>;
    expect(contract).toMatchObject({
      subscriptionPlans: { tasker: "PRO" },
      billingPeriod: { startDate: new Date(start).toISOString(), endDate: ended, autoRenew: true },
      billing: { status: "active" },
    });
    expect(contract).not.toHaveProperty("scheduled");
  }
  const connection = killable.connect();
  const [counted] = await connection.client`
    select count(*)::integer as messages, count(distinct message_id)::integer as ids from billing_messages`;
  expect(counted).toEqual({ messages: USERS.length * 4, ids: USERS.length * 4 });
  expect((await checkLedger(connection.db)).violations).toEqual([]);
  await connection.close();
}, 240_000);
