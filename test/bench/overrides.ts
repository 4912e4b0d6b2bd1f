import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import { yamlUpload } from "../support/uploads.ts";
import type { BenchRow } from "./pricing.ts";
import { pricingOf, sideBySide } from "./side-by-side.ts";

/*
 * Compares contracts with overrides with contracts without: evaluation and consumption, and the prediction of a change.
 */

const OVERRIDES = 10;
/** Contracts with overrides in the side-by-side runs; the others have none. */
const OVERRIDDEN = 200;
const CONTRACTS = 100_000;
const CONFIGURATIONS = 20;
/** Contracts with overrides, and how many different sets these have. */
const EXCEPTIONS = 1_000;
const SETS = 100;
const ROUNDS = 3;
const JSON_TYPE = { "content-type": "application/json" };

async function must(answer: Response): Promise<Response> {
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${await answer.text()}`);
  return answer;
}

/** Evaluation and consumption of contracts with overrides, against contracts without. */
function perCall(quick: boolean): Promise<BenchRow[]> {
  return sideBySide(async ({ ours, contracts }) => {
    const { url, headers } = ours([], "");
    const set = async (path: string, change: object) =>
      must(
        await fetch(`${url}/api/v1/contracts/${path}`, {
          method: "PUT",
          headers,
          body: JSON.stringify({ ...change, reason: "Agreed with support" }),
        }),
      );
    for (let i = 0; i < OVERRIDDEN; i += 1) {
      for (let each = 0; each < OVERRIDES; each += 1)
        await set(`plain-${i}/overrides/plain/features/feature${each}`, { mode: "set", value: true });
      await set(`user-${i}/overrides/meter/usageLimits/calls`, { mode: "set", value: 90_000_000 });
    }
    const isOverridden = (i: number) => i < OVERRIDDEN;
    const pair = (name: string, pathOf: (i: number) => string, body: string) => ({
      name: `${name}, with overrides / without`,
      of: ours(contracts.filter(isOverridden).map(pathOf), body),
      against: ours(contracts.filter((i) => !isOverridden(i)).map(pathOf), body),
      connections: 64,
      target: 0.9,
    });
    return [
      pair("evaluate one feature without limits", (i) => `plain-${i}/plain-feature7`, "{}"),
      pair("evaluate 30 features", (i) => `plain-${i}`, "{}"),
      pair("evaluate one feature with its limit", (i) => `user-${i}/meter-call`, "{}"),
      pair("consume", (i) => `user-${i}/meter-call`, '{"meter-calls":1}'),
    ];
  }, quick);
}

/** Builds a pricing with one plan per configuration. Version 2 lowers each plan's limit. */
const wide = (version: 1 | 2) =>
  `${pricingOf("Wide", 30, true).replace('"1.0.0"', `"${version}.0.0"`).split("plans:")[0]}plans:
${Array.from({ length: CONFIGURATIONS }, (_, i) => `  PLAN${i}: { price: ${i}, features: null, usageLimits: { calls: { value: ${100 * (i + 1) - (version === 2 ? 5 : 0)} } } }`).join("\n")}
`;

/** Predicts a novation of 100,000 contracts, before and after 1,000 of them get overrides. */
async function prediction(): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const key = await contractUsers(connection, {
      pricing: wide(1),
      service: "wide",
      plan: "PLAN0",
      userIds: ["first"],
    });
    const sql = connection.client;
    await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      select 'b' || lpad(to_hex(n), 23, '0'), c.organization_id, 'user-' || n, 'user-' || n, c.start_date, c.end_date
      from contracts c, generate_series(1, ${CONTRACTS - 1}::integer) n`;
    await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan)
      select c.id, cs.service_id, cs.pricing_id, 0, 'PLAN' || (substr(c.user_id, 6)::integer % ${CONFIGURATIONS}::integer)
      from contracts c, contract_services cs where c.user_id like 'user-%'`;
    await sql`insert into usage_levels (contract_id, service_id, limit_name, position, consumed)
      select cs.contract_id, cs.service_id, 'calls', 0, 7 from contract_services cs
      join contracts c on c.id = cs.contract_id where c.user_id like 'user-%'`;
    await sql`analyze`;
    const [program = "", ...given] = await builtRestOn("Node 20");
    const server = await startRestServer([program, ...given], database.url);
    const post = async (path: string, body: string | FormData) =>
      (
        await must(
          await fetch(`${server.url}/api/v1${path}`, {
            method: "POST",
            headers: { "x-api-key": key, ...(typeof body === "string" ? JSON_TYPE : {}) },
            body,
          }),
        )
      ).json();
    await post("/services/Wide/pricings", yamlUpload(wide(2)));
    const predict = async (): Promise<number> => {
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const started = performance.now();
        await post("/services/Wide/impact", JSON.stringify({ action: "novation", pricingVersion: "2.0.0" }));
        times.push(performance.now() - started);
      }
      return times.toSorted((one, other) => one - other)[Math.floor(ROUNDS / 2)] ?? Number.NaN;
    };
    const without = await predict();
    await sql`insert into contract_overrides
        (contract_id, service_id, kind, name, mode, value, starts_at, reason, set_at, actor_kind)
      select cs.contract_id, cs.service_id, 'usageLimits', 'calls', 'add',
        to_json(substr(c.user_id, 6)::integer % ${SETS}::integer + 1), c.start_date, 'Agreed', c.start_date, 'key'
      from contracts c join contract_services cs on cs.contract_id = c.id
      where c.user_id like 'user-%' and substr(c.user_id, 6)::integer <= ${EXCEPTIONS}::integer`;
    await sql`analyze contract_overrides`;
    const withOverrides = await predict();
    await server.stop();
    await connection.close();
    return [
      {
        name: "impact on 100,000 contracts, 1,000 of them with 100 sets of overrides / without overrides",
        value: withOverrides / without,
        target: "<= 3",
        ok: withOverrides / without <= 3,
        detail: `${Math.round(withOverrides)} of ${Math.round(without)} ms`,
      },
    ];
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  return [...(await perCall(quick)), ...(await prediction())];
}
