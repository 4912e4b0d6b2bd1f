import { expect, test } from "vitest";
import type { TestApi } from "./api.ts";
import { consumed, contract, show, tasker } from "./contracting.ts";
import { expectBalancesMatchLedger } from "./invariants.ts";

/* Tests of usage that several processes over one database count, each with its own pool and its own batches. */

const LIMIT = 900;
/** The pricing that `api` must have. */
export const USAGE_PRICING = tasker({ maxTasks: LIMIT });

export interface ManyCounters {
  /** Prepares contracts and reads them, over the database of the processes. */
  api: TestApi;
  /** Sends a request to one of the processes: the same numbers reach the same one, if the test can choose. */
  request(process: number, path: string, init: RequestInit): Promise<Response> | Response;
}

interface Answer {
  eval: boolean;
  hold: { id: string } | null;
  items: { key: string; verdict: string }[];
  lease: { id: string; granted: Record<string, number>; spent: Record<string, number> } | null;
  error?: unknown;
}

/** How often a call is repeated that is told to come back. */
const MAX_REPEATS = 5;
const IS_LOCKED = "The contract is locked by other requests. Please try again";

const tasks = (amount: number) => ({ "tasker-maxTasks": amount });
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Registers the tests. */
export function testUsageThroughMany(many: () => ManyCounters): void {
  async function send(process: number, method: string, path: string, body?: object, idempotencyKey?: string) {
    const { api, request } = many();
    const ask = () =>
      request(process, `/api/v1${path}`, {
        method,
        headers: {
          "x-api-key": api.callers.evaluation.key,
          "content-type": "application/json",
          ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    let answer = await ask();
    let text = await answer.text();
    // On a busy machine the contract stays locked for longer than a call waits. It has counted nothing then.
    for (let again = 0; answer.status === 503 && text.includes(IS_LOCKED) && again < MAX_REPEATS; again += 1) {
      answer = await ask();
      text = await answer.text();
    }
    const isRepeated = answer.headers.get("idempotent-replayed") === "true";
    return { status: answer.status, text, body: (text === "" ? {} : JSON.parse(text)) as Answer, isRepeated };
  }

  test("consumers of one contract through several processes are granted exactly what the limit allows", async () => {
    const { api } = many();
    const key = api.callers.all.key;
    await contract(api, key, "hot");
    let granted = 0;
    const ask = async (i: number) => {
      const { status, body } = await send(i, "POST", "/features/hot/tasker-board", tasks(1));
      expect(status).toBe(200);
      if (body.eval) granted += 1;
    };
    await Promise.all(
      Array.from({ length: 60 }, async (_, caller) => {
        for (let unit = 0; unit < 20; unit += 1) await ask(caller + unit);
      }),
    );
    expect(granted).toBe(LIMIT);
    expect(await consumed(api, key, "hot")).toBe(LIMIT);
    await expectBalancesMatchLedger(api.database);
  });

  test("leases, holds and strict consumption through several processes never pass the limit, and lose nothing", async () => {
    const { api } = many();
    await contract(api, api.callers.all.key, "leased");
    const board = "/features/leased/tasker-board";
    const [settled, open] = [[] as number[], [] as string[]];
    const unexpected = new Set<string>();
    const expectStatus = (status: number | undefined, ...expected: number[]) => {
      if (!expected.includes(status ?? 0)) unexpected.add(String(status));
    };
    let denied = 0;
    /** Spends two fills of a lease. Then ends it with three calls at once, or leaves it open. */
    const hold = async (process: number, round: number) => {
      const opened = await send(process, "POST", `${board}/leases`, { for: "PT10M", amounts: tasks(5 + (round % 7)) });
      expectStatus(opened.status, 200, 201);
      const { lease } = opened.body;
      if (lease === null) return (denied += 1);
      const half = Math.ceil((lease.granted["tasker-maxTasks"] ?? 0) / 2);
      const path = `/leases/${lease.id}`;
      const filled = await send(process + 1, "POST", path, { spent: tasks(half), amounts: tasks(6) });
      expectStatus(filled.status, 200);
      const granted = filled.body.lease?.granted["tasker-maxTasks"] ?? 0;
      const spent = Math.max(half, granted - 1);
      if (round % 3 === 0) return open.push(lease.id);
      const last = { spent: tasks(spent), amounts: tasks(0) };
      const ends = await Promise.all([0, 1, 2].map((other) => send(process + other, "POST", path, last)));
      for (const { status } of ends) expectStatus(status, 200);
      return settled.push(spent);
    };
    const consume = async (process: number, round: number) => {
      const counted = await send(process, "POST", `${board}?strict=true`, tasks(round % 3));
      expectStatus(counted.status, 200);
      if (counted.body.eval) settled.push(round % 3);
      const taken = await send(process, "POST", `${board}?hold=PT1M`, tasks(4));
      expectStatus(taken.status, 200);
    };
    const stop = new AbortController();
    let [reads, most] = [0, 0];
    const watching = (async () => {
      for (; !stop.signal.aborted; reads += 1) {
        const [level] = await api.database.connection.client<{ usage: number }[]>`
          select (u.consumed + u.held)::float8 as usage from usage_levels u join contracts c on c.id = u.contract_id
          where c.user_id = 'leased' and u.limit_name = 'maxTasks'`;
        most = Math.max(most, level?.usage ?? 0);
      }
    })();
    await Promise.all(
      Array.from({ length: 24 }, async (_, process) => {
        for (let round = process; round < process + 8; round += 1) {
          await (process % 4 === 0 ? consume(process, round) : hold(process, round));
        }
      }),
    );
    stop.abort();
    await watching;
    expect([...unexpected]).toEqual([]);
    expect(reads).toBeGreaterThan(20);
    expect(denied).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(LIMIT);
    expect(most).toBeGreaterThan(LIMIT * 0.9);
    const left = await Promise.all(
      open.map(async (id, i) => {
        const reported = await send(i, "DELETE", `/leases/${id}`);
        expect(reported.status).toBe(204);
        const [row] = await api.database.connection.client<{ spent: number }[]>`
          select (lease->'spent'->0->>'amount')::float8 as spent from holds where id = ${id}`;
        return row?.spent ?? 0;
      }),
    );
    const spent = [...settled, ...left].reduce((sum, one) => sum + one, 0);
    const level = (await show(api, api.callers.all.key, "leased")).usageLevels["tasker"]?.["maxTasks"];
    expect(level?.consumed).toBe(spent);
    await expectBalancesMatchLedger(api.database);
  });

  test("one report that arrives at several processes at once counts once, and an older one not at all", async () => {
    const { api } = many();
    await contract(api, api.callers.all.key, "reported");
    const opened = await send(0, "POST", "/features/reported/tasker-board/leases", {
      for: "PT10M",
      amounts: tasks(500),
    });
    const path = `/leases/${opened.body.lease?.id}`;
    for (let spent = 10; spent <= 100; spent += 10) {
      const reports = [spent, spent, spent, spent - 5].map((each, i) =>
        send(i, "POST", path, { spent: tasks(each), amounts: tasks(400) }),
      );
      const statuses = (await Promise.all(reports)).map(({ status }) => status);
      expect(statuses.slice(0, 3)).toEqual([200, 200, 200]);
      expect([200, 409]).toContain(statuses[3]);
    }
    const level = (await show(api, api.callers.all.key, "reported")).usageLevels["tasker"]?.["maxTasks"];
    expect(level).toMatchObject({ consumed: 100, held: 400 });
    await expectBalancesMatchLedger(api.database);
  });

  test("strict consumption of many contracts through several processes fills each limit exactly", async () => {
    const { api } = many();
    const users = numbers(8).map((i) => `full-${i}`);
    for (const user of users) await contract(api, api.callers.all.key, user);
    const amount = LIMIT / 30;
    const answers = await Promise.all(
      numbers(users.length * 45).map(async (i) => {
        const user = users[i % users.length] ?? "";
        const path = `/features/${user}/tasker-board?strict=true`;
        return { user, ...(await send(Math.floor(i / users.length), "POST", path, tasks(amount))) };
      }),
    );
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    for (const user of users) {
      expect(answers.filter((answer) => answer.user === user && answer.body.eval)).toHaveLength(30);
      expect(await consumed(api, api.callers.all.key, user)).toBe(LIMIT);
    }
    await expectBalancesMatchLedger(api.database);
  });

  test("a hold that one process took is settled or released by another, once", async () => {
    const { api } = many();
    await contract(api, api.callers.all.key, "held");
    const path = "/features/held/tasker-board?hold=PT10M";
    const taken = await Promise.all(numbers(20).map((i) => send(i, "POST", path, tasks(5))));
    const ids = taken.map(({ body }) => body.hold?.id ?? "");
    expect(new Set(ids).size).toBe(20);
    const ends = await Promise.all(
      ids.map((id, i) =>
        Promise.all([
          send(i + 1, "POST", `/holds/${id}`, tasks(3)),
          send(i + 2, "POST", `/holds/${id}`, tasks(3)),
          ...(i % 2 === 0 ? [] : [send(i + 3, "DELETE", `/holds/${id}`)]),
        ]),
      ),
    );
    for (const answers of ends) {
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200 || status === 204)).toHaveLength(1);
      expect(statuses.filter((status) => status === 409)).toHaveLength(statuses.length - 1);
    }
    const settled = ends.flat().filter(({ status }) => status === 200).length;
    expect(settled).toBeGreaterThanOrEqual(10);
    const level = (await show(api, api.callers.all.key, "held")).usageLevels["tasker"]?.["maxTasks"];
    expect(level).toMatchObject({ consumed: 3 * settled });
    expect(level).not.toHaveProperty("held");
    await expectBalancesMatchLedger(api.database);
  });

  test("calls with one Idempotency-Key through several processes at once count once and get one answer", async () => {
    const { api } = many();
    await contract(api, api.callers.all.key, "once");
    for (const key of ["first", "second", "third"]) {
      const path = "/features/once/tasker-board";
      const answers = await Promise.all(numbers(24).map((i) => send(i, "POST", path, tasks(2), key)));
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      expect(answers.filter(({ isRepeated }) => !isRepeated)).toHaveLength(1);
    }
    expect(await consumed(api, api.callers.all.key, "once")).toBe(6);
    await expectBalancesMatchLedger(api.database);
  });

  test("a batch that arrives at several processes at once, in different orders, counts once", async () => {
    const { api } = many();
    const users = numbers(6).map((i) => `batched-${i}`);
    for (const user of users) await contract(api, api.callers.all.key, user);
    const items = numbers(120).map((i) => ({
      key: `item-${i}`,
      userId: users[i % users.length],
      featureId: "tasker-board",
      amounts: tasks(1),
    }));
    const orders = numbers(6).map((i) => [...items.slice(20 * i), ...items.slice(0, 20 * i)]);
    const answers = await Promise.all(orders.map((batch, i) => send(i, "POST", "/usage", batch)));
    expect(answers.map(({ status }) => status)).toEqual(orders.map(() => 200));
    const verdicts = answers.flatMap(({ body }) => body.items);
    const counted = verdicts.filter(({ verdict }) => verdict === "counted").map(({ key }) => key);
    expect(counted.toSorted()).toEqual(items.map(({ key }) => key).toSorted());
    expect(verdicts.filter(({ verdict }) => verdict === "duplicate")).toHaveLength(5 * items.length);
    for (const user of users) expect(await consumed(api, api.callers.all.key, user)).toBe(20);
    await expectBalancesMatchLedger(api.database);
  });
}
