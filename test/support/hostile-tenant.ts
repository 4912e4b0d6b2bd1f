import { readFileSync } from "node:fs";
import type { Connection } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { testKeyring } from "./event-server.ts";
import * as pricings from "./hostile-pricings.ts";
import { yamlUpload } from "./uploads.ts";

/* One tenant attacks a server process while another one evaluates and measures. Needs Linux. */

const VICTIM = `saasName: Quiet
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['calls'] < pricingContext['usageLimits']['calls']"}
usageLimits:
  calls: {valueType: NUMERIC, defaultValue: .inf, unit: call, type: NON_RENEWABLE, trackable: true}
plans:
  ALL: {price: 0, features: null}
`;

/** One request of the attacker; `path` is relative to the organization's services. */
interface HostileCall {
  readonly path: string;
  readonly upload?: () => string;
  readonly body?: object;
  /** Minimum scope of its key. An EVALUATION key reads. */
  readonly scope: "ALL" | "EVALUATION";
}

export interface Attack {
  readonly name: string;
  /** Versions of one service that exist before the attack, uploaded by another process. */
  readonly versions?: readonly (() => string)[];
  /** True if the attacker has one contract with `plan0` and every add-on of that service. */
  readonly contract?: true;
  /** Number of additional versions, each a copy of the first one. */
  readonly copies?: number;
  readonly call: HostileCall;
  /** Concurrent calls of the attacker. */
  readonly callsAtOnce: number;
}

/** One more than an organization may run concurrently. */
const CALLS_AT_ONCE = 3;
const { extensions } = pricings;
const diff = { path: "/hostile/diff?from=1.0.0&to=2.0.0", scope: "EVALUATION" } as const;
const versionsOf = (shape: Parameters<typeof extensions>[0]) => [
  () => extensions(shape),
  () => extensions({ ...shape, version: "2.0.0", more: 1 }),
];
const upload = (make: () => string): HostileCall => ({ path: "", upload: make, scope: "ALL" });

const together = (callsAtOnce: number, attacks: readonly Omit<Attack, "callsAtOnce">[]): readonly Attack[] =>
  attacks.map((attack) => ({ ...attack, callsAtOnce }));

/** Attacks by expensive computation. */
export const COMPUTATIONS: readonly Attack[] = together(CALLS_AT_ONCE, [
  { name: "a diff over many quantities of six add-ons", versions: versionsOf({}), call: diff },
  { name: "a diff over 600 add-ons", versions: versionsOf({ addOns: 600, limits: 2, maxQuantity: 10 }), call: diff },
  {
    name: "a diff over 1,000 features, 20 plans and 14 add-ons",
    versions: versionsOf({ addOns: 14, features: 1_000, plans: 20, limits: 20 }),
    call: diff,
  },
  {
    name: "the impact on one contract with 150 add-ons",
    versions: versionsOf({ addOns: 150, maxQuantity: 10 }),
    contract: true,
    call: { path: "/hostile/impact", body: { action: "novation", pricingVersion: "2.0.0" }, scope: "ALL" },
  },
  {
    name: "a diff with a draft of 1.9 MB",
    versions: [() => extensions({})],
    call: { path: "/hostile/diff", upload: () => pricings.manyFeatures({ version: "2.0.0" }), scope: "ALL" },
  },
  { name: "an upload of 1.9 MB", call: upload(() => pricings.manyFeatures()) },
  { name: "an upload of many tags and many features", call: upload(() => pricings.unknownTags()) },
  { name: "an upload of expressions of unclosed quotes", call: upload(() => pricings.unclosedQuotesInEach()) },
  { name: "an upload of formulas that compare long texts", call: upload(() => pricings.longComparisons()) },
]);

/** Attacks by repetition. */
export const REPETITIONS: readonly Attack[] = together(1, [
  { name: "a long text behind 4,000 aliases", call: upload(() => pricings.repeatedByAliases()) },
  { name: "a long text that 4,000 mistakes quote", call: upload(() => pricings.repeatedInProblems()) },
  { name: "a long default that 300 plans repeat", call: upload(() => pricings.repeatedByPlans()) },
  { name: "long names that 3,000 plans repeat", call: upload(() => pricings.namesRepeatedByPlans()) },
  { name: "a long name above 2,000 mistakes", call: upload(() => pricings.mistakesBelowLongName()) },
  {
    name: "a list of 60 pricings of 4 MB each",
    versions: [() => pricings.repeatedByPlans({ length: 62_000, plans: 64 })],
    copies: 60,
    call: { path: "/hostile/pricings", scope: "EVALUATION" },
  },
  { name: "one long expression of unclosed quotes", call: upload(() => pricings.unclosedQuotes()) },
]);

export interface Tenants {
  readonly victimKey: string;
  readonly attackerKeys: Readonly<Record<"ALL" | "EVALUATION", string>>;
  /** Removes all other data, so that the attacker has only what the attack needs. */
  prepare(attack: Attack): Promise<void>;
}

/**
 * Fills an empty, migrated database with both tenants. Runs in this process, so that the preparation costs the server
 * nothing.
 */
export async function createTenants(connection: Connection): Promise<Tenants> {
  const resources = createResources(connection, {
    keyring: await testKeyring(),
    settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: true },
  });
  await seedFirstAdmin(resources, { username: "admin", password: "password", organizationName: "Seeded" });
  const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
  const call = async (method: string, path: string, key: string, body?: object) => {
    const isForm = body instanceof FormData;
    const answer = await app.request(`/api/v1${path}`, {
      method,
      headers: { "x-api-key": key, ...(isForm ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${(await answer.text()).slice(0, 500)}`);
    return answer.json();
  };
  const tenant = async (username: string) => {
    const { apiKey } = await call("POST", "/users", "", { username, password: "password" });
    const { id, apiKeys } = await call("POST", "/organizations", apiKey, { name: username, owner: username });
    return { userKey: String(apiKey), id: String(id), key: String(apiKeys[0].key) };
  };
  const contract = (key: string, service: string, plan: string, addOns: Record<string, number> = {}) =>
    call("POST", "/contracts", key, {
      userContact: { userId: "ada", username: "ada" },
      contractedServices: { [service]: "1.0.0" },
      subscriptionPlans: { [service]: plan },
      subscriptionAddOns: { [service]: addOns },
    });
  const [victim, attacker] = [await tenant("victim"), await tenant("attacker")];
  await call("POST", "/services", victim.key, yamlUpload(VICTIM));
  await contract(victim.key, "quiet", "ALL");
  const keys = await call("POST", `/organizations/${attacker.id}/api-keys`, attacker.userKey, { scope: "EVALUATION" });
  const evaluation = keys.apiKeys.find((each: { scope: string }) => each.scope === "EVALUATION");
  return {
    victimKey: victim.key,
    attackerKeys: { ALL: attacker.key, EVALUATION: evaluation.key },
    prepare: async ({ versions = [], contract: isContracted, copies = 0 }) => {
      await call("DELETE", "/contracts", attacker.key).catch(() => undefined);
      await call("DELETE", "/services", attacker.key);
      for (const [index, make] of versions.entries()) {
        await call("POST", index === 0 ? "/services" : "/services/Hostile/pricings", attacker.key, yamlUpload(make()));
      }
      await connection.client`
        insert into pricings (id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
        select id || n, service_id, version || n, version_key || n, availability, source, model, model_hash, declared_at
        from pricings, generate_series(1, ${copies}::int) n
        where service_id = (select id from services where name_key = 'hostile') and version = '1.0.0'`;
      if (isContracted === undefined) return;
      const { addOns } = await call("GET", "/services/Hostile/pricings/1.0.0", attacker.key);
      await contract(
        attacker.key,
        "hostile",
        "plan0",
        Object.fromEntries(Object.keys(addOns).map((name) => [name, 2])),
      );
    },
  };
}

/** Returns the processor time of a process's main thread, in milliseconds. Load of other processes does not count. */
export function mainThreadMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}

/** Returns the peak memory of a process, in MB. */
export function peakMegabytesOf(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

/** Requests of one kind during the attack. */
export interface Seen {
  /** Duration of each request. */
  readonly tookMs: number[];
  /** Processor time of the server's main thread between each request and its answer. */
  readonly computedMs: number[];
  /** Answers other than 200. */
  failed: number;
}

export interface Observation {
  readonly evaluation: Seen;
  readonly live: Seen;
  readonly peakMB: number;
  /** Status of each of the attacker's calls; 0 without an answer. */
  readonly attack: readonly number[];
  /** Start of the first answer's body. */
  readonly answer: string;
}

/** A later answer counts as missing. */
const PROBE_TIMEOUT_MS = 5_000;
const PAUSE_MS = 5;

export function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? Number.NaN;
}

/**
 * Attacks until the other tenant has evaluated `minEvaluations` times, and measures until the last attack is answered, at most
 * `maxMs`. Stops early when the other tenant gets no answers.
 */
export async function watchAttack(
  server: { url: string; pid: number },
  { victimKey, attackerKeys }: Tenants,
  { call, callsAtOnce }: Attack,
  { minEvaluations, maxMs }: { minEvaluations: number; maxMs: number },
): Promise<Observation> {
  const url = `${server.url}/api/v1`;
  const ended = new AbortController();
  const nothing = (): Seen => ({ tookMs: [], computedMs: [], failed: 0 });
  const [seenLive, seenEvaluation] = [nothing(), nothing()];
  const probe = async (seen: Seen, path: string, init: RequestInit): Promise<void> => {
    while (!ended.signal.aborted) {
      const [started, computed] = [performance.now(), mainThreadMs(server.pid)];
      const isOk = await fetch(path, { ...init, signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) }).then(
        async (answer) => (await answer.text()) !== "" && answer.status === 200,
        () => false,
      );
      seen.tookMs.push(performance.now() - started);
      if (!isOk) {
        seen.failed += 1;
        // The other tenant gets no answers any more, which decides the test.
        ended.abort();
        break;
      }
      seen.computedMs.push(mainThreadMs(server.pid) - computed);
      await new Promise((wait) => setTimeout(wait, PAUSE_MS));
    }
  };
  const evaluate = {
    method: "POST",
    headers: { "x-api-key": victimKey, "content-type": "application/json" },
    body: "{}",
  };
  // Warms up, because the first request costs more.
  for (let i = 0; i < 20; i += 1) {
    for (const [path, init] of [
      [`${url}/features/ada/quiet-call`, evaluate],
      [`${server.url}/live`, {}],
    ] as const) {
      const answer = await fetch(path, init);
      if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      await answer.text();
    }
  }
  const isForm = call.upload !== undefined;
  const form = call.upload === undefined ? undefined : await formBytes(call.upload());
  let answer = "";
  const strike = async (): Promise<number> => {
    try {
      const response = await fetch(`${url}/services${call.path}`, {
        method: isForm || call.body !== undefined ? "POST" : "GET",
        headers: {
          "x-api-key": attackerKeys[call.scope],
          ...(form === undefined ? { "content-type": "application/json" } : { "content-type": form.type }),
        },
        ...(form !== undefined
          ? { body: form.bytes }
          : call.body === undefined
            ? {}
            : { body: JSON.stringify(call.body) }),
        signal: AbortSignal.any([ended.signal, AbortSignal.timeout(maxMs)]),
      });
      // Some answers exceed the maximum string length.
      for await (const chunk of response.body ?? [])
        answer ||= new TextDecoder().decode((chunk as Uint8Array).slice(0, 500));
      return response.status;
    } catch {
      return 0;
    }
  };
  const strikeAgain = async (): Promise<number[]> => {
    const statuses: number[] = [];
    do statuses.push(await strike());
    while (seenEvaluation.computedMs.length < minEvaluations && !ended.signal.aborted);
    return statuses;
  };
  const probes = [
    probe(seenLive, `${server.url}/live`, {}),
    probe(seenEvaluation, `${url}/features/ada/quiet-call`, evaluate),
  ];
  const attack = (await Promise.all(Array.from({ length: callsAtOnce }, strikeAgain))).flat();
  ended.abort();
  await Promise.all(probes);
  return { live: seenLive, evaluation: seenEvaluation, attack, answer, peakMB: peakMegabytesOf(server.pid) };
}

/** Prepares the multipart body beforehand, because this process also measures. */
async function formBytes(text: string): Promise<{ bytes: ArrayBuffer; type: string }> {
  const made = new Response(yamlUpload(text));
  return { bytes: await made.arrayBuffer(), type: made.headers.get("content-type") ?? "" };
}
