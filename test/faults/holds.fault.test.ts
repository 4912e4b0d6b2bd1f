import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { type Killable, type KillableAnswer, startKillable } from "../support/killable.ts";
import { meterPricing } from "../support/pricings.ts";

/*
 * SIGKILL hits REST and Postgres in turn while 64 callers take, report of, settle, extend, release and let expire. At every
 * moment what is consumed and held stays within the limit, and at the end each hold has ended once.
 */

const CALLERS = 64;
const LIMIT = 400;
const PRICING = meterPricing(
  `{ valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: NON_RENEWABLE, trackable: true }`,
);
const SEED = { pricing: PRICING, service: "meter", plan: "ALL", userIds: ["ada"] };

let killable: Killable;
afterEach(() => killable.close());

interface Body {
  eval?: boolean;
  hold?: { id: string } | null;
}
type Answer = KillableAnswer<Body>;

/** A row of a hold that has ended. */
interface HoldEnd {
  id: string;
  state: string;
  onExpiry: string;
  counted: Record<string, number> | null;
}

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const below = (most: number) => Math.floor(Math.random() * most);

/** Repeats a call with one key until its answer has arrived. */
const sendUntilAnswered = (method: string, path: string, amount: number | undefined): Promise<Answer> =>
  killable.sendUntilAnswered(
    method,
    path,
    amount === undefined ? undefined : { "meter-calls": amount },
    crypto.randomUUID(),
  );

/** Reports a total, which needs no key to be repeated. */
const reportUntilAnswered = (path: string, total: number): Promise<Answer> =>
  killable.sendUntilAnswered("POST", `${path}?keep=true`, { spent: { "meter-calls": total }, for: "PT1S" });

test.each([
  [12, "REST", {}],
  [4, "workers", { processes: 2, areWorkers: true }],
])(
  "after %i kills of %s and of Postgres no limit was passed, and each hold has ended once",
  async (kills, _, options) => {
    killable = await startKillable(SEED, options);
    const stop = new AbortController();
    const unexpected = new Set<string>();
    const settled = new Map<string, number>();
    const reported = new Map<string, number>();
    const granted = new Map<string, number>();
    let denied = 0;
    const callers = Array.from({ length: CALLERS }, async () => {
      while (!stop.signal.aborted) {
        const amount = 1 + below(9);
        const query = `hold=PT${1 + below(2)}S&onExpiry=${below(4) === 0 ? "consume" : "release"}`;
        const taken = await sendUntilAnswered("POST", `/features/ada/meter-call?${query}`, amount);
        if (taken.status !== 200) unexpected.add(`take ${taken.status} ${JSON.stringify(taken.body)}`);
        const id = taken.body.hold?.id;
        if (id === undefined) {
          denied += 1;
          await pause(50);
          continue;
        }
        granted.set(id, amount);
        const path = `/holds/${id}`;
        // A few amounts only, so that the limit is near for the whole test and not reached by consumption alone.
        const settling = below(8) === 0 ? 1 : 0;
        const calls: readonly (() => Promise<Answer>)[] = [
          () => sendUntilAnswered("POST", path, settling),
          () => sendUntilAnswered("DELETE", path, undefined),
          async () => {
            const extended = await sendUntilAnswered("POST", `${path}?extend=PT1S`, undefined);
            return extended.status === 200 ? sendUntilAnswered("POST", path, settling) : extended;
          },
          async () => {
            const kept = await reportUntilAnswered(path, settling);
            if (kept.status !== 200) return kept;
            reported.set(id, settling);
            if (settling > 0) {
              const late = await reportUntilAnswered(path, 0);
              if (late.status !== 200) return late;
            }
            // Otherwise it expires.
            return below(2) === 0 ? sendUntilAnswered("POST", path, settling) : { status: 200, body: {} };
          },
          async () => ({ status: 200, body: {} }),
        ];
        const choice = below(calls.length);
        const ended = (await calls[choice]?.()) ?? { status: 0, body: {} };
        if (![200, 204, 409].includes(ended.status))
          unexpected.add(`end ${ended.status} ${JSON.stringify(ended.body)}`);
        if (ended.status === 200 && ended.body.hold != null && settling > 0) settled.set(id, settling);
      }
    });
    const watching = killable.watch(stop.signal, async (client) => {
      const [level] = await client<{ usage: number }[]>`
        select (consumed + held)::float8 as usage from usage_levels`;
      if (level !== undefined && level.usage > LIMIT) unexpected.add(`usage ${level.usage}`);
    });
    for (let kill = 0; kill < kills; kill += 1) {
      await pause(1_000);
      await (kill % 2 === 0 ? killable.killRest() : killable.killDatabase());
      expect(killable.isRestRunning(), "REST survives the death of its database").toBe(true);
    }
    // A slow machine needs longer to reach the limit, and for as many reads and holds.
    await expect.poll(() => denied, { timeout: 240_000 }).toBeGreaterThan(0);
    await expect.poll(watching.reads, { timeout: 240_000 }).toBeGreaterThan(100);
    await expect.poll(() => granted.size, { timeout: 240_000 }).toBeGreaterThan(kills * 10);
    stop.abort();
    await Promise.all([...callers, watching.ended]);
    expect([...unexpected]).toEqual([]);

    await pause(2_100);
    expect((await killable.send("POST", "/features/ada/meter-call", { "meter-calls": 0 })).status).toBe(200);
    const connection = killable.connect();
    try {
      const rows = await connection.client<HoldEnd[]>`
        select id, state, on_expiry as "onExpiry", counted from holds`;
      const holds = new Map(rows.map((row) => [row.id, row]));
      const countedOf = (id: string) => holds.get(id)?.counted?.["meter-calls"] ?? 0;
      for (const [id, amount] of granted) {
        expect(holds.has(id), `the acknowledged hold ${id} is there`).toBe(true);
        expect(countedOf(id), `${id} counts at most what it held`).toBeLessThanOrEqual(amount);
      }
      for (const [id, amount] of settled) expect(holds.get(id)?.counted).toEqual({ "meter-calls": amount });
      expect(reported.size).toBeGreaterThan(0);
      for (const [id, total] of reported) {
        const { state, onExpiry } = holds.get(id) ?? {};
        const isConsumed = state === "expired" && onExpiry === "consume";
        expect(countedOf(id), `${id} counts what was reported last`).toBe(isConsumed ? granted.get(id) : total);
      }
      expect(rows.filter(({ state }) => state === "open")).toEqual([]);
      const counted = rows.reduce((sum, row) => sum + (row.counted?.["meter-calls"] ?? 0), 0);
      const [level] = await connection.client<{ consumed: string; held: string }[]>`
      select consumed, held from usage_levels`;
      expect({ consumed: Number(level?.consumed), held: Number(level?.held) }).toEqual({ consumed: counted, held: 0 });
      const [movements] = await connection.client<{ count: string; operations: string }[]>`
        select count(*) as count, count(distinct operation_id) as operations from usage_ledger l
        where delta <> 0 and not exists (select from holds h where h.id = l.operation_id and h.kept)`;
      expect(movements?.count).toBe(movements?.operations);
      expect((await checkLedger(connection.db)).violations).toEqual([]);
    } finally {
      await connection.close();
    }
  },
  600_000,
);
