import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createRollUp } from "../../src/db/queries/usage-rollup.ts";
import { type Killable, startKillable } from "../support/killable.ts";
import { TWO_LIMITS } from "../support/pricings.ts";

/*
 * SIGKILL hits two REST processes and Postgres in turn while many callers record batches of usage. Each batch is sent up to
 * three times, in different orders, at once and through both processes, and again until one call has answered about it.
 */

const CALLERS = 16;
const ITEMS = 12;
const USERS = ["ada", "bob", "cleo", "dan"];
const SEED = { pricing: TWO_LIMITS, service: "meter", plan: "ALL", userIds: USERS };

let killable: Killable;
afterEach(() => killable.close());

interface Item {
  key: string;
  userId: string;
  featureId: string;
  amounts: Record<string, number>;
}
type Verdicts = readonly { key: string; verdict: string }[];

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const below = (most: number) => Math.floor(Math.random() * most);
const shuffled = <T>(values: readonly T[]): T[] =>
  values
    .map((value) => ({ value, place: Math.random() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ value }) => value);

/** Status 0 is a broken connection. */
async function record(items: readonly Item[], process: number): Promise<{ status: number; items: Verdicts }> {
  const { status, body } = await killable.send<{ items?: Verdicts }>("POST", "/usage", items, undefined, { process });
  return { status, items: body.items ?? [] };
}

const randomItem = (): Item => ({
  key: crypto.randomUUID(),
  userId: USERS[below(USERS.length)] ?? "",
  featureId: "meter-call",
  amounts: { "meter-calls": 1, "meter-bytes": 1 + below(9) },
});

test.each([
  [12, "REST", { processes: 2 }],
  [6, "workers", { processes: 2, areWorkers: true }],
])(
  "after %i kills of %s and of Postgres each item that was sent counts once",
  async (kills, _, options) => {
    killable = await startKillable(SEED, options);
    const stop = new AbortController();
    const unexpected = new Set<string>();
    const sent = new Map<string, Item>();
    /** Calls that answered `counted`, by key. */
    const counted = new Map<string, number>();
    let broken = 0;
    let duplicates = 0;
    const note = ({ status, items }: Awaited<ReturnType<typeof record>>): boolean => {
      if (status === 0 || status === 503) broken += 1;
      else if (status !== 200) unexpected.add(`status ${status}`);
      for (const { key, verdict } of items) {
        if (verdict === "counted") counted.set(key, (counted.get(key) ?? 0) + 1);
        else if (verdict === "duplicate") duplicates += 1;
        else unexpected.add(`verdict ${verdict}`);
      }
      return status === 200;
    };
    const callers = Array.from({ length: CALLERS }, async (_, caller) => {
      while (!stop.signal.aborted) {
        const batch = Array.from({ length: ITEMS }, randomItem);
        for (const item of batch) sent.set(item.key, item);
        const copies = Array.from({ length: 1 + below(3) }, (_, copy) => record(shuffled(batch), (caller + copy) % 2));
        let isAnswered = (await Promise.all(copies)).map(note).includes(true);
        for (let attempt = caller; !isAnswered; attempt += 1) {
          await pause(100);
          isAnswered = note(await record(shuffled(batch), attempt % 2));
        }
      }
    });
    // The roll-up runs as in an event server, so that it meets movements of transactions that never commit.
    const summing = (async () => {
      while (!stop.signal.aborted) {
        const connection = killable.connect();
        try {
          const rollUp = createRollUp(connection.db);
          for (; !stop.signal.aborted; await pause(30)) await rollUp();
        } catch {
          await pause(50);
        } finally {
          await connection.close(0);
        }
      }
    })();
    for (let kill = 0; kill < kills; kill += 1) {
      await pause(300);
      await (kill % 3 === 2 ? killable.killDatabase() : killable.killRest(kill % 3));
      expect(killable.isRestRunning(), "REST survives the death of its database").toBe(true);
    }
    // On a slow machine few batches fit between two kills.
    await expect.poll(() => duplicates, { timeout: 240_000 }).toBeGreaterThan(0);
    await expect.poll(() => sent.size, { timeout: 240_000 }).toBeGreaterThan(kills * CALLERS);
    stop.abort();
    await Promise.all([...callers, summing]);
    expect([...unexpected]).toEqual([]);
    expect(broken, "calls that the kills broke").toBeGreaterThan(0);
    expect(
      [...counted].filter(([, times]) => times > 1),
      "items that were counted twice",
    ).toEqual([]);

    const totals = (userIds: readonly string[]) => {
      const items = [...sent.values()].filter(({ userId }) => userIds.includes(userId));
      const sum = (limit: string) => items.reduce((all, { amounts }) => all + (amounts[limit] ?? 0), 0);
      return { calls: sum("meter-calls"), bytes: sum("meter-bytes") };
    };
    const history = async (path: string) => {
      const answer = await fetch(killable.url(path), { headers: killable.headers });
      expect(answer.status).toBe(200);
      const { totals } = (await answer.json()) as { totals: { limit: string; counted: number }[] };
      return Object.fromEntries(totals.map(({ limit, counted }) => [limit, counted]));
    };
    const connection = killable.connect();
    try {
      const movements = await connection.client<{ key: string; limit: string; delta: number }[]>`
      select operation_id as key, limit_name as limit, delta::float8 from usage_ledger where delta <> 0`;
      const written = new Map(movements.map(({ key, limit, delta }) => [`${key} ${limit}`, delta]));
      expect(written.size, "movements of one item and limit").toBe(movements.length);
      expect(written.size).toBe(2 * sent.size);
      for (const [key, { amounts }] of sent) {
        const { calls, bytes } = { calls: written.get(`${key} calls`), bytes: written.get(`${key} bytes`) };
        expect({ "meter-calls": calls, "meter-bytes": bytes }).toEqual(amounts);
      }
      const levels = await connection.client<{ userId: string; limit: string; consumed: number }[]>`
      select c.user_id as "userId", u.limit_name as limit, u.consumed::float8
      from usage_levels u join contracts c on c.id = u.contract_id`;
      for (const userId of USERS) {
        const balances = levels.filter((level) => level.userId === userId);
        expect(Object.fromEntries(balances.map(({ limit, consumed }) => [limit, consumed]))).toEqual(totals([userId]));
        for (const by of ["hour", "day", "feature", "movement"]) {
          expect(await history(`/contracts/${userId}/usage?by=${by}`)).toEqual(totals([userId]));
        }
      }
      for (const by of ["day", "feature", "user"]) expect(await history(`/usage?by=${by}`)).toEqual(totals(USERS));
      expect((await checkLedger(connection.db)).violations).toEqual([]);
      const rollUp = createRollUp(connection.db);
      await rollUp();
      await rollUp();
      const [left] = await connection.client<{ count: string }[]>`
      select count(*) from usage_ledger where id > (select up_to from usage_rollup)`;
      expect(left?.count, "movements that the roll-up lacks").toBe("0");
      expect((await checkLedger(connection.db)).violations).toEqual([]);
      for (const by of ["day", "feature", "user"]) expect(await history(`/usage?by=${by}`)).toEqual(totals(USERS));
    } finally {
      await connection.close();
    }
  },
  600_000,
);
