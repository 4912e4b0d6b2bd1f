import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { type Killable, startKillable } from "../support/killable.ts";
import { TWO_LIMITS } from "../support/pricings.ts";

/*
 * SIGKILL hits REST and Postgres in turn while many clients consume. A client with an Idempotency-Key
 * retries until 200: each unit counts once. For clients without one, every acknowledged unit counts, and no unit that
 * was never sent.
 */

const SEED = { pricing: TWO_LIMITS, service: "meter", plan: "ALL", userIds: ["keyed", "plain"] };

let killable: Killable;
afterEach(() => killable.close());

/** Consumes one call and three bytes. Returns the status; 0 when the connection broke. */
async function attempt(userId: string, idempotencyKey?: string): Promise<number> {
  const amounts = { "meter-calls": 1, "meter-bytes": 3 };
  return (await killable.send("POST", `/features/${userId}/meter-call`, amounts, idempotencyKey)).status;
}

test.each([
  [20, "REST", {}],
  [6, "workers", { processes: 2, areWorkers: true }],
])(
  "after %i kills of %s and of Postgres under load no acknowledged unit is lost and none is counted twice",
  async (kills, _, options) => {
    killable = await startKillable(SEED, options);
    const stop = new AbortController();
    const unexpected = new Set<number>();
    const note = (status: number) => {
      if (status !== 0 && status !== 200 && status !== 503) unexpected.add(status);
    };
    let keyed = 0;
    const withKeys = Array.from({ length: 12 }, async () => {
      while (!stop.signal.aborted) {
        const unit = crypto.randomUUID();
        for (;;) {
          const status = await attempt("keyed", unit);
          note(status);
          if (status === 200) break;
          await new Promise((wait) => setTimeout(wait, 20));
        }
        keyed += 1;
      }
    });
    let sent = 0;
    let acknowledged = 0;
    const withoutKeys = Array.from({ length: 12 }, async () => {
      while (!stop.signal.aborted) {
        sent += 1;
        const status = await attempt("plain");
        note(status);
        if (status === 200) acknowledged += 1;
        else await new Promise((wait) => setTimeout(wait, 20));
      }
    });
    for (let kill = 0; kill < kills; kill += 1) {
      await new Promise((wait) => setTimeout(wait, 150));
      await (kill % 2 === 0 ? killable.killRest() : killable.killDatabase());
      expect(killable.isRestRunning(), "REST survives the death of its database").toBe(true);
    }
    // On a slow machine few calls fit between two kills.
    await expect.poll(() => Math.min(keyed, acknowledged), { timeout: 240_000 }).toBeGreaterThan(kills);
    stop.abort();
    await Promise.all([...withKeys, ...withoutKeys]);
    expect([...unexpected]).toEqual([]);

    const connection = killable.connect();
    try {
      const levels = await connection.client<{ userId: string; limit: string; consumed: string }[]>`
      select c.user_id as "userId", u.limit_name as limit, u.consumed
      from usage_levels u join contracts c on c.id = u.contract_id`;
      const consumed = (userId: string, limit: string) =>
        Number(levels.find((level) => level.userId === userId && level.limit === limit)?.consumed);
      expect(consumed("keyed", "calls")).toBe(keyed);
      expect(consumed("keyed", "bytes")).toBe(3 * keyed);
      expect(consumed("plain", "calls")).toBeGreaterThanOrEqual(acknowledged);
      expect(consumed("plain", "calls")).toBeLessThanOrEqual(sent);
      expect(consumed("plain", "bytes")).toBe(3 * consumed("plain", "calls"));
      expect((await checkLedger(connection.db)).violations).toEqual([]);
    } finally {
      await connection.close();
    }
  },
  600_000,
);
