import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { buildSpender, type JournaledSpend, type Spender, startSpender } from "../local/spenders.ts";
import { type Killable, startKillable } from "../support/killable.ts";

/*
 * Back ends spend from leases while they, two REST processes and Postgres are killed in turn. SIGSTOP holds them beyond the
 * end of their leases, and connections are cut. Afterwards their journals are held against the ledger, process by process:
 * each spends a feature of its own. LEASE_CHAOS_SECONDS sets the duration. Source: contract tokens-and-leases §8, §9.
 */

const SECONDS = Number(process.env["LEASE_CHAOS_SECONDS"] ?? 60);
const BACK_ENDS = 6;
/** Each back end that starts takes the next feature. */
const FEATURES = 20 + SECONDS;
const LIMIT = 1_000 * SECONDS;
/** Of a user who begins near the limit, times a number. */
const NEAR = 150;
const LIMIT_ID = "meter-calls";
const USERS = Array.from({ length: 20 }, (_, i) => `user-${i}`);
const LEASE_MS = 2_000;

const PRICING = `
saasName: Meter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:${Array.from(
  { length: FEATURES },
  (_, i) => `
  call${i}:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls']`,
).join("")}
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

/** A line between back ends and one REST process, which can be cut. */
interface Line {
  url: string;
  /** Breaks every connection, and refuses new ones for a while. */
  cut(milliseconds: number): Promise<void>;
  close(): void;
}

async function startLine(target: URL): Promise<Line> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server: Server = createServer((from) => {
    if (isCut) return from.destroy();
    const to = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
    return undefined;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    cut: async (milliseconds) => {
      isCut = true;
      for (const socket of sockets) socket.destroy();
      await pause(milliseconds);
      isCut = false;
    },
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const below = (most: number) => Math.floor(Math.random() * most);
const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);

let killable: Killable;
let folder: string;
let built: string;
let lines: Line[];
const started: { spender: Spender; isKilled: boolean }[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "faregate-leases-"));
  built = await buildSpender(folder);
  killable = await startKillable({ pricing: PRICING, service: "meter", plan: "ALL", userIds: USERS }, { processes: 2 });
  lines = await Promise.all([0, 1].map((process) => startLine(new URL(killable.url("", process)))));
}, 60_000);
afterAll(async () => {
  for (const { spender } of started) spender.process.kill("SIGKILL");
  for (const line of lines) line.close();
  await killable.close();
  await rm(folder, { recursive: true, force: true });
});

function start(): Spender {
  const number = started.length;
  const spender = startSpender({
    url: lines[number % lines.length]?.url ?? "",
    key: killable.key,
    featureId: `meter-call${number}`,
    limitId: LIMIT_ID,
    users: USERS.slice(0, USERS.length - (number % BACK_ENDS)),
    journal: join(folder, `journal-${number}`),
    built,
  });
  started.push({ spender, isKilled: false });
  return spender;
}

/** Spends of a user that were answered, and those that a process died in. */
function amounts(journal: readonly JournaledSpend[], userId: string) {
  const own = journal.filter((spend) => spend.userId === userId);
  return {
    spent: sum(own.map(({ answer, amount }) => (answer?.isSpent === true ? amount : 0))),
    unknown: sum(own.map(({ answer, amount }) => (answer === undefined ? amount : 0))),
  };
}

test(
  `after ${SECONDS} s of kills, stops and cuts no limit was passed, and everything is accounted for`,
  async () => {
    // The hottest users reach the limit, at different times.
    for (const [i, userId] of USERS.slice(0, USERS.length / 2).entries()) {
      const answer = await fetch(killable.url(`/contracts/${userId}/usageLevels`), {
        method: "PUT",
        headers: { "x-api-key": killable.key, "content-type": "application/json" },
        body: JSON.stringify({ meter: { calls: LIMIT - NEAR * (i + 1) } }),
      });
      expect(answer.status).toBe(200);
    }
    for (let i = 0; i < BACK_ENDS; i += 1) start();
    await expect
      .poll(() => started.every(({ spender }) => spender.journal().length > 20), { timeout: 60_000 })
      .toBe(true);
    const stop = new AbortController();
    const unexpected = new Set<string>();
    let reads = 0;
    const watching = (async () => {
      while (!stop.signal.aborted) {
        const connection = killable.connect();
        try {
          for (; !stop.signal.aborted; reads += 1) {
            const [level] = await connection.client<{ usage: number }[]>`
            select max(consumed + held)::float8 as usage from usage_levels`;
            if (level !== undefined && level.usage > LIMIT) unexpected.add(`usage ${level.usage}`);
            await pause(20);
          }
        } catch {
          await pause(50);
        } finally {
          await connection.close(0);
        }
      }
    })();

    const running = () => started.filter(({ isKilled, spender }) => !isKilled && spender.process.exitCode === null);
    const anyone = () => running()[below(running().length)];
    /** Periods in which no call reached the service. */
    const outages: { from: number; to: number }[] = [];
    const faults: (() => Promise<unknown>)[] = [
      async () => {
        const victim = anyone();
        if (victim === undefined) return;
        victim.isKilled = true;
        await victim.spender.kill();
        start();
      },
      async () => {
        const victim = anyone();
        victim?.spender.process.kill("SIGSTOP");
        await pause(LEASE_MS * 1.5);
        victim?.spender.process.kill("SIGCONT");
      },
      () => lines[below(2)]?.cut(below(1_500)) ?? Promise.resolve(),
      () => killable.killRest(below(2)),
      async () => {
        const cuts = lines.map((line) => line.cut(1_500));
        const from = Date.now();
        await pause(1_450);
        outages.push({ from, to: Date.now() });
        await Promise.all(cuts);
      },
      () => killable.killDatabase(),
    ];
    for (const until = performance.now() + SECONDS * 1_000, fault = { next: 0 }; performance.now() < until;) {
      await pause(700);
      await faults[fault.next++ % faults.length]?.();
      expect(killable.isRestRunning(), "REST survives the death of its database").toBe(true);
    }
    const survivors = running();
    const ended = await Promise.all(survivors.map(({ spender }) => spender.end()));
    stop.abort();
    await watching;
    expect([...unexpected]).toEqual([]);
    expect(survivors).toHaveLength(BACK_ENDS);
    expect(ended, "back ends that closed").toEqual(survivors.map(() => true));
    expect(reads).toBeGreaterThan(SECONDS);

    // Leases of those who were killed end now. An evaluation writes that.
    await pause(LEASE_MS + 100);
    for (const userId of USERS) {
      const answer = await fetch(killable.url(`/features/${userId}`), {
        method: "POST",
        headers: { "x-api-key": killable.key },
      });
      expect(answer.status).toBe(200);
    }
    const journals = started.map(({ spender, isKilled }) => ({ spender, isKilled, journal: spender.journal() }));
    const connection = killable.connect();
    try {
      const moved = await connection.client<{ userId: string; featureId: string; amount: number }[]>`
      select c.user_id as "userId", l.feature_id as "featureId", sum(l.delta)::float8 as amount
      from usage_ledger l join contracts c on c.id = l.contract_id group by 1, 2`;
      const rests = await connection.client<{ userId: string; featureId: string; state: string; rest: number }[]>`
      select c.user_id as "userId", h.feature_id as "featureId", h.state, (h.amounts -> 0 ->> 'amount')::float8 as rest
      from holds h join contracts c on c.id = h.contract_id`;
      expect(rests.filter(({ state }) => state === "open")).toEqual([]);
      const levels = await connection.client<{ userId: string; consumed: number; held: number }[]>`
      select c.user_id as "userId", u.consumed::float8, u.held::float8
      from usage_levels u join contracts c on c.id = u.contract_id`;
      let lostByKills = 0;
      for (const { userId, consumed, held } of levels) {
        expect(consumed).toBeLessThanOrEqual(LIMIT);
        expect(held).toBe(0);
        const ofUser = <T extends { userId: string }>(rows: readonly T[]) =>
          rows.filter((row) => row.userId === userId);
        expect(sum(ofUser(moved).map(({ amount }) => amount))).toBe(consumed);
        for (const { spender, isKilled, journal } of journals) {
          const { featureId } = spender;
          const counted = sum(ofUser(moved).map((row) => (row.featureId === featureId ? row.amount : 0)));
          const rest = sum(
            ofUser(rests).map((row) => (row.featureId === featureId && row.state === "expired" ? row.rest : 0)),
          );
          const { spent, unknown } = amounts(journal, userId);
          const what = `${featureId} of ${userId}`;
          if (isKilled) {
            expect(counted, what).toBeGreaterThanOrEqual(spent);
            expect(counted, what).toBeLessThanOrEqual(spent + unknown + rest);
            lostByKills += counted - spent;
          } else expect({ counted, rest, unknown }, what).toEqual({ counted: spent, rest: 0, unknown: 0 });
        }
      }
      const answers = journals.flatMap(({ journal }) => journal.flatMap(({ answer }) => answer ?? []));
      const during = answers.filter(({ at }) => outages.some(({ from, to }) => at > from && at < to));
      const count = (source: string, of = answers) => of.filter((answer) => answer.source === source).length;
      expect(count("memory")).toBeGreaterThan(1_000);
      expect(count("memory", during), "answers while no call reached the service").toBeGreaterThan(0);
      expect(answers.some(({ isSpent }) => !isSpent)).toBe(true);
      expect(lostByKills).toBeGreaterThan(0);
      expect((await checkLedger(connection.db)).violations).toEqual([]);
    } finally {
      await connection.close();
    }
  },
  (SECONDS * 2 + 120) * 1_000,
);
