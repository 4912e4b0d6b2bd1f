import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { type Killable, type KillableAnswer, startKillable } from "../support/killable.ts";
import { meterPricing } from "../support/pricings.ts";

/*
 * Case 8 of contract budgets: 64 callers spend and hold for the spenders of a tree of 3 × 8 × 8, at two processes, while SIGKILL
 * hits both and Postgres, and budgets are raised, deleted and set again.
 */

const CALLERS = 64;
const KILLS = 6;
const LIMIT = "meter-calls";
const PRICING = meterPricing(
  `{ valueType: NUMERIC, defaultValue: 1000000, unit: call, type: NON_RENEWABLE, trackable: true }`,
);
const SEED = { pricing: PRICING, service: "meter", plan: "ALL", userIds: ["ada"] };

/** Budgets of one depth each, from the contract down: none is so narrow that those below never deny. */
const TREE = [
  { name: "whole", amount: 120 },
  { name: "team", spender: "*", amount: 42 },
  { name: "person", spender: "*/*", amount: 9 },
  { name: "agent", spender: "*/*/*", amount: 5 },
];

let killable: Killable;
afterEach(() => killable.close());

interface Body {
  eval?: boolean;
  hold?: { id: string } | null;
  budget?: { name: string };
  error?: string;
}
type Answer = KillableAnswer<Body>;

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const below = (most: number) => Math.floor(Math.random() * most);

/** Repeats a call, with one key where it counts, until its answer has arrived. */
const sendUntilAnswered = (method: string, path: string, body?: object, counts = true): Promise<Answer> =>
  killable.sendUntilAnswered(method, path, body, counts ? crypto.randomUUID() : undefined);

const unexpected = new Set<string>();
const denied = new Map<string, number>();
/** Sums of the counted amounts, by the path of the agent. */
const counted = new Map<string, number>();
const count = (spender: string, amount: number) => counted.set(spender, (counted.get(spender) ?? 0) + amount);

/** Takes an amount for one agent, at once or as a hold that is settled, released or left. */
async function spend(): Promise<void> {
  const spender = `t${below(3)}/p${below(8)}/a${below(8)}`;
  const amount = 1 + below(4);
  // Few amounts stay, so that the budgets are near for the whole test.
  const isHeld = below(8) > 0;
  const query = `spender=${encodeURIComponent(spender)}&explain=true${isHeld ? "&hold=PT1S" : ""}`;
  const taken = await sendUntilAnswered("POST", `/features/ada/meter-call?${query}`, { [LIMIT]: amount });
  if (taken.status !== 200) unexpected.add(`take ${taken.status} ${JSON.stringify(taken.body)}`);
  if (taken.body.eval !== true) {
    const name = taken.body.budget?.name ?? "no budget";
    denied.set(name, (denied.get(name) ?? 0) + 1);
    return;
  }
  if (!isHeld) {
    count(spender, amount);
    return;
  }
  const path = `/holds/${taken.body.hold?.id}`;
  const choice = below(8);
  if (choice === 0) {
    const settled = await sendUntilAnswered("POST", path, { [LIMIT]: 1 });
    if (settled.status === 200 && settled.body.hold != null) count(spender, 1);
    else if (settled.status !== 409) unexpected.add(`settle ${settled.status} ${JSON.stringify(settled.body)}`);
  } else if (choice < 6) {
    const released = await sendUntilAnswered("DELETE", path);
    if (![204, 409].includes(released.status)) unexpected.add(`release ${released.status}`);
  }
}

/** Raises the budgets of the tree, and sets one beside them that is deleted again. */
async function change(round: number): Promise<void> {
  const expectStatus = (what: string, { status, body }: Answer, ...statuses: number[]) => {
    if (!statuses.includes(status)) unexpected.add(`${what} ${status} ${JSON.stringify(body)}`);
  };
  const { name, amount, spender = null } = TREE[round % TREE.length] ?? { name: "", amount: 0 };
  const raised = { limit: LIMIT, spender, amount: amount + Math.ceil((amount * round) / 20), window: "life" };
  const path = `/contracts/ada/budgets/${name}`;
  expectStatus("raise", await sendUntilAnswered("PUT", path, raised, false), 200);
  const beside = { limit: LIMIT, spender: "*/*", amount: 5, window: { value: 1, unit: "MONTH", anchor: "contract" } };
  const other = "/contracts/ada/budgets/beside";
  expectStatus("set", await sendUntilAnswered("PUT", other, beside, false), 200, 201);
  await pause(150);
  expectStatus("delete", await sendUntilAnswered("DELETE", other, undefined, false), 204, 404);
  await pause(150);
}

/** Balances that are above their budget, and nodes whose children were taken more of than they. */
const passed = (client: ReturnType<Killable["connect"]>["client"]) => client<{ node: string }[]>`
  with taken as (
    select c.name, b.spender, (b.used + b.held)::float8 as amount, (c.amount #>> '{}')::float8 as bound
    from contract_budgets c join budget_balances b on b.contract_id = c.contract_id and b.budget = c.id
  ), children as (
    select case name when 'agent' then 'person' when 'person' then 'team' else 'whole' end as name,
      regexp_replace(spender, '/?[^/]*$', '') as spender, sum(amount) as amount
    from taken where name in ('agent', 'person', 'team') group by 1, 2
  )
  select name || ' ' || spender || ' ' || amount || ' of ' || bound as node from taken where amount > bound
  union all
  select 'children of ' || c.name || ' ' || c.spender || ' ' || c.amount || ' of ' || coalesce(t.amount, 0)
  from children c left join taken t using (name, spender) where c.amount > coalesce(t.amount, 0)`;

test(`after ${KILLS} kills no budget of a tree was passed at any read, and each answered call counted once at each depth`, async () => {
  killable = await startKillable(SEED, { processes: 2 });
  for (const { name, amount, spender = null } of TREE) {
    const body = { limit: LIMIT, spender, amount, window: "life" };
    expect((await killable.send("PUT", `/contracts/ada/budgets/${name}`, body)).status).toBe(201);
  }
  const stop = new AbortController();
  const stopChanges = new AbortController();
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!stop.signal.aborted) await spend();
  });
  let changes = 0;
  const changing = (async () => {
    // On a slow machine a change among all the calls takes seconds.
    for (; !stopChanges.signal.aborted || changes < 2; changes += 1) await change(changes);
  })();
  const watching = killable.watch(stop.signal, async (client) => {
    for (const { node } of await passed(client)) unexpected.add(node);
  });
  for (let kill = 0; kill < KILLS; kill += 1) {
    await pause(1_500);
    await (kill % 3 === 2 ? killable.killDatabase() : killable.killRest(kill % 3));
    expect(killable.isRestRunning(), "REST survives the death of its database").toBe(true);
  }
  stopChanges.abort();
  await changing;
  // A slow machine takes longer to use up the largest one. Nothing raises it any more.
  const deniedBy = () => [...denied.keys()];
  await expect.poll(deniedBy, { timeout: 240_000 }).toEqual(expect.arrayContaining(TREE.map(({ name }) => name)));
  await expect.poll(watching.reads, { timeout: 240_000 }).toBeGreaterThan(100);
  stop.abort();
  await Promise.all([...callers, watching.ended]);
  expect([...unexpected]).toEqual([]);
  expect(denied.get("no budget")).toBeUndefined();

  await pause(1_100);
  expect((await killable.send("POST", "/features/ada/meter-call?spender=t0", {})).status).toBe(200);
  const connection = killable.connect();
  try {
    const rows = await connection.client<{ spender: string; used: number; held: number }[]>`
        select b.spender, used::float8 as used, held::float8 as held from budget_balances b`;
    for (let depth = 0; depth < TREE.length; depth += 1) {
      const sums = new Map<string, number>();
      for (const [spender, amount] of counted) {
        const node = spender.split("/").slice(0, depth).join("/");
        sums.set(node, (sums.get(node) ?? 0) + amount);
      }
      const depthOf = (spender: string) => (spender === "" ? 0 : spender.split("/").length);
      const used = rows.filter((row) => depthOf(row.spender) === depth && row.used > 0);
      expect(new Map(used.map((row) => [row.spender, row.used]))).toEqual(sums);
    }
    expect(rows.filter(({ held }) => held > 0)).toEqual([]);
    expect((await checkLedger(connection.db)).violations).toEqual([]);
  } finally {
    await connection.close();
  }
}, 600_000);
