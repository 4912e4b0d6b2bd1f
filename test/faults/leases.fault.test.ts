import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { type Killable, startKillable } from "../support/killable.ts";
import { meterPricing } from "../support/pricings.ts";

/*
 * SIGKILL hits two REST processes and Postgres in turn while many holders lease. Holders end in time, late, or never. Usage
 * stays within the limit at every moment. At the end the balance is what holders spent, and what those held that never
 * reported again.
 */

const HOLDERS = 32;
const LIMIT = 2000;
const PRICING = meterPricing(
  `{ valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: NON_RENEWABLE, trackable: true }`,
);
const SEED = { pricing: PRICING, service: "meter", plan: "ALL", userIds: ["ada"] };

let killable: Killable;
afterEach(() => killable.close());

interface Body {
  lease?: { id: string; granted: Record<string, number>; until: string } | null;
  now?: string;
  error?: unknown;
}

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const below = (most: number) => Math.floor(Math.random() * most);
const calls = (amount: number) => ({ "meter-calls": amount });

const send = (method: string, path: string, body?: object, idempotencyKey?: string) =>
  killable.sendUntilAnswered<Body>(method, path, body, idempotencyKey);

/** Outcomes of all leases. */
interface Journal {
  /** By lease: what its holder spent, or all that it was granted if it never reported again. */
  counted: Map<string, number>;
  denied: number;
  late: number;
  abandoned: number;
  unexpected: Set<string>;
}

async function holdOnce(journal: Journal): Promise<void> {
  const wanted = 1 + below(40);
  const opening = { for: "PT1S", amounts: calls(wanted) };
  const opened = await send("POST", "/features/ada/meter-call/leases", opening, crypto.randomUUID());
  const { lease } = opened.body;
  if (lease == null) {
    if (opened.status !== 200) journal.unexpected.add(`open ${opened.status} ${JSON.stringify(opened.body)}`);
    journal.denied += 1;
    return void (await pause(50));
  }
  const path = `/leases/${lease.id}`;
  const fate = below(40);
  let granted = lease.granted["meter-calls"] ?? 0;
  if (fate === 0) {
    journal.counted.set(lease.id, granted);
    journal.abandoned += 1;
    return;
  }
  let spent = below(6) === 0 ? 1 : 0;
  journal.counted.set(lease.id, spent);
  if (fate < 30) {
    const reported = await send("POST", path, { spent: calls(spent), amounts: calls(wanted + below(20)), for: "PT1S" });
    // A lease may end while its report waits for the database; its holder stops spending then.
    if (reported.status === 200) granted = reported.body.lease?.granted["meter-calls"] ?? granted;
    else if (reported.status !== 409) journal.unexpected.add(`report ${reported.status}`);
    if (reported.status === 200 && below(10) === 0) spent = Math.min(granted, spent + 1);
  }
  journal.counted.set(lease.id, spent);
  if (fate >= 35) {
    await pause(1_100);
    journal.late += 1;
  }
  const isDeleted = spent === 0 && below(2) === 0;
  const ended = isDeleted
    ? await send("DELETE", path)
    : await send("POST", path, { spent: calls(spent), amounts: calls(0) });
  if (ended.status !== (isDeleted ? 204 : 200)) {
    journal.unexpected.add(`end ${ended.status} ${JSON.stringify(ended.body)}`);
  }
}

test.each([
  [12, "REST", { processes: 2 }],
  [6, "workers", { processes: 2, areWorkers: true }],
])(
  "after %i kills of %s and of Postgres no lease has passed the limit, and none has lost anything",
  async (kills, _, options) => {
    killable = await startKillable(SEED, options);
    const stop = new AbortController();
    const journal: Journal = { counted: new Map(), denied: 0, late: 0, abandoned: 0, unexpected: new Set() };
    const holders = Array.from({ length: HOLDERS }, async () => {
      while (!stop.signal.aborted) await holdOnce(journal);
    });
    const watching = killable.watch(stop.signal, async (client) => {
      const [level] = await client<{ usage: number }[]>`
        select (consumed + held)::float8 as usage from usage_levels`;
      if (level !== undefined && level.usage > LIMIT) journal.unexpected.add(`usage ${level.usage}`);
    });
    for (let kill = 0; kill < kills; kill += 1) {
      await pause(1_000);
      await (kill % 3 === 2 ? killable.killDatabase() : killable.killRest(kill % 3));
      expect(killable.isRestRunning(), "REST survives the death of its database").toBe(true);
    }
    // One lease in 40 is abandoned: a slow machine takes longer to reach one.
    await expect.poll(() => Math.min(journal.abandoned, journal.late), { timeout: 240_000 }).toBeGreaterThan(0);
    await expect.poll(watching.reads, { timeout: 240_000 }).toBeGreaterThan(100);
    await expect.poll(() => journal.counted.size, { timeout: 240_000 }).toBeGreaterThan(kills * 10);
    stop.abort();
    await Promise.all([...holders, watching.ended]);
    expect([...journal.unexpected]).toEqual([]);

    await pause(1_100);
    expect((await send("POST", "/features/ada/meter-call", calls(0))).status).toBe(200);
    const connection = killable.connect();
    try {
      const rows = await connection.client<{ id: string; state: string }[]>`select id, state from holds`;
      // An answered open is one lease, and an open that was repeated too.
      expect(rows.map(({ id }) => id).toSorted()).toEqual([...journal.counted.keys()].toSorted());
      expect(rows.filter(({ state }) => state === "open")).toEqual([]);
      const counted = [...journal.counted.values()].reduce((sum, amount) => sum + amount, 0);
      const [level] = await connection.client<{ consumed: number; held: number }[]>`
      select consumed::float8 as consumed, held::float8 as held from usage_levels`;
      expect(level).toEqual({ consumed: counted, held: 0 });
      expect((await checkLedger(connection.db)).violations).toEqual([]);
    } finally {
      await connection.close();
    }
  },
  600_000,
);
