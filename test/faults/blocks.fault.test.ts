import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { Reference } from "../core/pricing/blocks.reference.ts";
import { tasker } from "../support/contracting.ts";
import { type Killable, startKillable } from "../support/killable.ts";

/*
 * SIGKILL hits two REST processes and their Postgres in turn while blocks change. Blocks are given, drawn, revoked and reset,
 * each call until it is answered. Every answer is that of the reference, which no kill hits. Source: contract credits §6.
 */

const USERS = ["ada", "bob", "eve"];
const GRANTED = 20;
const STEPS = 16;
/** A contract has at most 100 blocks. */
const MAX_STEPS = 100;
const DAY_MS = 86_400_000;

let killable: Killable;
let kills = 0;
/** Kills that each history lives through, at least. */
const MIN_KILLS = 2;
const needsKills = () => kills < MIN_KILLS;
afterEach(() => killable.close());

const call = (method: string, path: string, body?: object, idempotencyKey?: string) =>
  killable.sendUntilAnswered<Record<string, unknown>>(method, path, body, idempotencyKey);

/** Lives one user's history, and compares each state with the reference. Returns the number of blocks given. */
async function live(userId: string): Promise<number> {
  const reference = new Reference();
  reference.granted = GRANTED;
  const ids = new Map<string, string>();
  const now = Date.now();
  for (let step = 0; step < STEPS || (needsKills() && step < MAX_STEPS); step += 1) {
    if (step >= STEPS) await new Promise((wait) => setTimeout(wait, 200));
    const name = `${userId}-${step}`;
    const kind = step === 0 ? 0 : Math.random();
    if (kind < 0.4) {
      const amount = 1 + Math.floor(Math.random() * 10);
      const expiresAt = now + (1 + Math.floor(Math.random() * 9)) * DAY_MS;
      const given = await call("POST", `/contracts/${userId}/blocks`, {
        service: "tasker",
        limit: "maxTasks",
        amount,
        expiresAt: new Date(expiresAt).toISOString(),
        reason: "Test",
        key: name,
      });
      expect([200, 201]).toContain(given.status);
      ids.set(String(step), String(given.body["id"]));
      const block = { from: now, expiresAt, createdAt: step, before: 0, fixed: null, isGone: false };
      reference.blocks.push({ id: String(step), amount, ...block });
    } else if (kind < 0.8) {
      const amount = 1 + Math.floor(Math.random() * 12);
      const fits = reference.consumed + amount <= reference.limit(now);
      const body = { "tasker-maxTasks": amount };
      const answer = await call("POST", `/features/${userId}/tasker-board?strict=true&server=true`, body, name);
      expect(answer.body).toMatchObject({ eval: fits });
      if (fits) reference.consumed += amount;
    } else if (kind < 0.93) {
      const drawn = reference.drawn(now);
      const open = reference.blocks.find(
        ({ id, fixed, isGone, amount, before }) => fixed === null && !isGone && before + (drawn.get(id) ?? 0) < amount,
      );
      if (open === undefined) continue;
      const answer = await call("DELETE", `/contracts/${userId}/blocks/${ids.get(open.id)}`);
      // A repeated call finds that the first one has revoked it.
      expect([204, 409]).toContain(answer.status);
      reference.end(open.id, now);
    } else {
      await call("PUT", `/contracts/${userId}/usageLevels?reset=true`, {}, name);
      reference.reset(now);
    }
    const { body } = await call("GET", `/contracts/${userId}/balances`);
    const balance = (body as unknown as { limit: string; blocks: { id: string; remaining: number }[] }[]).find(
      ({ limit }) => limit === "maxTasks",
    );
    expect(balance).toMatchObject({ limitNow: reference.limit(now), consumed: reference.consumed });
    const drawn = reference.drawn(now);
    const left = reference.blocks
      .filter(({ fixed, isGone }) => fixed === null && !isGone)
      .map(({ id, amount, before }) => [ids.get(id), amount - before - (drawn.get(id) ?? 0)] as const)
      .filter(([, remaining]) => remaining > 0);
    expect(new Map(balance?.blocks.map(({ id, remaining }) => [id, remaining]))).toEqual(new Map(left));
  }
  return ids.size;
}

test("blocks that are given, drawn, revoked and reset through kills of two processes are those of the reference", async () => {
  const seed = { pricing: tasker(), service: "tasker", plan: "PRO", userIds: USERS };
  killable = await startKillable(seed, { processes: 2 });
  const done = new AbortController();
  const lives = Promise.all(USERS.map(live)).finally(() => done.abort());
  // Handled at the await below; without this, a failure during a kill would end the run.
  lives.catch(() => undefined);
  for (; kills < 5 && !done.signal.aborted; kills += 1) {
    await new Promise((wait) => setTimeout(wait, 700));
    await (kills % 3 === 2 ? killable.killDatabase() : killable.killRest(kills % 2));
  }
  const given = await lives;
  expect(kills).toBeGreaterThanOrEqual(MIN_KILLS);
  const connection = killable.connect();
  const [stored] = await connection.client`select count(*)::integer as blocks from contract_blocks`;
  expect(stored).toEqual({ blocks: given.reduce((sum, count) => sum + count, 0) });
  expect((await checkLedger(connection.db)).violations).toEqual([]);
  await connection.close();
}, 240_000);
