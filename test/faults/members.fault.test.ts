import { afterEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { type Killable, startKillable } from "../support/killable.ts";

/*
 * Case 2 of contract members: two processes replace one list by 10,000 members each, at once, while SIGKILL hits one of them or
 * Postgres in between.
 */

const MEMBERS = 10_000;
const KILLS = 6;
const PRICING = `
saasName: Desk
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
custom: { faregate: { seats: seats } }
features:
  invite: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['invite']" }
usageLimits:
  seats: { valueType: NUMERIC, defaultValue: ${MEMBERS}, unit: seat, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

let killable: Killable;
afterEach(() => killable.close());

const listOf = (prefix: string) =>
  Array.from({ length: MEMBERS }, (_, place) => ({ id: `${prefix}-${place}`, name: `Member ${place}` }));

/** Status 0 is a broken connection. */
async function replace(process: number, prefix: string): Promise<number> {
  const list = { data: listOf(prefix) };
  const to = { process, withinMs: 30_000 };
  return (await killable.send("PUT", "/contracts/acme/members", list, undefined, to)).status;
}

test(`after ${KILLS} kills between two lists, the team is one of them, whole, and the seats are its number`, async () => {
  killable = await startKillable(
    { pricing: PRICING, service: "desk", plan: "ALL", userIds: ["acme"] },
    { processes: 2 },
  );
  const seen = new Set<number>();
  let previous = "warm";
  // Kills spread over the calls, however fast the machine is: two of them take up to twice as long as one.
  const begunAt = performance.now();
  expect(await replace(0, previous)).toBe(200);
  const callMs = performance.now() - begunAt;
  for (let round = 0; round < KILLS; round += 1) {
    const [one, other] = [`a${round}`, `b${round}`];
    const sent = Promise.all([replace(0, one), replace(1, other)]);
    await new Promise((wait) => setTimeout(wait, (2 * callMs * (round + 0.5)) / KILLS));
    await (round % 3 === 2 ? killable.killDatabase() : killable.killRest(round % 2));
    const statuses = await sent;
    for (const status of statuses) seen.add(status);
    const connection = killable.connect();
    const rows = await connection.client<{ prefix: string; members: number }[]>`
        select split_part(member_id, '-', 1) as prefix, count(*)::int as members from contract_members group by 1`;
    const [levels] = await connection.client<{ consumed: number; member_count: number }[]>`
        select consumed::int, member_count from usage_levels join contracts c on c.id = contract_id`;
    const { violations } = await checkLedger(connection.db);
    await connection.close(0);
    expect(violations).toEqual([]);
    expect(rows, "no list is mixed with another").toHaveLength(1);
    const { prefix, members } = rows[0] ?? { prefix: "", members: 0 };
    expect(members).toBe(MEMBERS);
    expect([one, other, previous]).toContain(prefix);
    if (statuses.includes(200)) expect([one, other]).toContain(prefix);
    expect(levels).toEqual({ consumed: members, member_count: members });
    previous = prefix;
  }
  expect([...seen].filter((status) => ![0, 200, 503].includes(status))).toEqual([]);
  expect(seen.has(0) || seen.has(503), "a kill has broken a call").toBe(true);
  expect(await replace(0, "last"), "a list replaces what is there").toBe(200);
}, 240_000);
