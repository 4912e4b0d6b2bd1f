import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { OPERATIONS } from "../../src/wire/operations.ts";
import type { Operation } from "../../src/wire/operation.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { createTenants, type KeptState, keepState, nameOf, pathOf, sampleOf, type Tenants } from "./tenants.ts";

/*
 * Sends damaged valid requests and nonsense to every operation. Asserts no 5xx, no hang, no unhandled rejection, and a
 * database whose invariants hold. FUZZ_CASES raises the number of cases, and FUZZ_SEED reproduces a run.
 */

/** Cases per group of routes at most. The default fits into the gate's minutes. */
const MAX_CASES = Number(process.env["FUZZ_CASES"] ?? 1000);
/** Cases per operation of a smaller group: three times as many as an operation of the largest group has. */
const CASES_PER_OPERATION = MAX_CASES / 10;
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
/** A slower answer counts as a hang. Generous, because the machine may be busy. */
const HANG_MS = 10_000;

let api: TestApi;
let tenants: Tenants;
let state: KeptState;
let keys: (string | undefined)[];
const unhandled: unknown[] = [];
const remember = (reason: unknown) => unhandled.push(reason);

beforeAll(async () => {
  process.on("unhandledRejection", remember);
  process.on("uncaughtException", remember);
  api = await createTestApi();
  tenants = await createTenants(api);
  state = await keepState(api);
  const { platformAdmin, owner, manager, all, management, evaluation } = api.callers;
  keys = [undefined, ...[platformAdmin, owner, manager, all, management, evaluation].map(({ key }) => key)];
});
afterAll(async () => {
  await api.close();
  process.off("unhandledRejection", remember);
  process.off("uncaughtException", remember);
});
afterEach(async () => {
  expect(unhandled).toEqual([]);
  expect(Object.keys(Object.prototype)).toEqual([]);
  await checkAndRestore();
});

/** Checks the invariants and restores every row. Requests that wrote no row leave both to be true. */
async function checkAndRestore(): Promise<void> {
  if (!(await state.hasChanged())) return;
  await expectBalancesMatchLedger(api.database);
  await state.restore();
}

const NASTY = [
  "",
  " ",
  ".",
  "..",
  "__proto__",
  "constructor",
  "\0",
  "\ud800",
  "ı",
  "%",
  "%00",
  "a/b",
  "'; drop table users; --",
  "${1+1}",
  "(a+)+$",
  "1e309",
  "-1",
  "null",
  "[object Object]",
  "x".repeat(300),
  "x".repeat(9000),
  "9999-12-31T23:59:59Z",
  "+275760-09-13",
  "f".repeat(24),
];
const nastyText = fc.oneof(fc.constantFrom(...NASTY), fc.string({ unit: "binary", maxLength: 40 }));
const nastyValue = fc.oneof(
  nastyText,
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -0,
    -1,
    1.5,
    2 ** 53,
    1e308,
    [],
    {},
    [[]],
    [null],
    { $gt: "" },
    { toString: 1 },
  ),
  fc.jsonValue({ maxDepth: 3 }),
);

/** One way to damage a value. Numbers choose the place, so that any seed fits any body. */
interface Damage {
  at: number[];
  kind: "replace" | "remove" | "add" | "wrap";
  value: unknown;
  name: string;
}
const damage: fc.Arbitrary<Damage> = fc.record({
  at: fc.array(fc.nat(20), { maxLength: 4 }),
  kind: fc.constantFrom("replace", "replace", "remove", "add", "wrap"),
  value: nastyValue,
  name: nastyText,
});

function damaged(value: unknown, { at, kind, value: odd, name }: Damage): unknown {
  const [here, ...deeper] = at;
  if (typeof value === "object" && value !== null && !Array.isArray(value) && here !== undefined) {
    const entries = Object.entries(value);
    const chosen = entries[here % Math.max(1, entries.length)];
    if (chosen !== undefined) {
      const rest = entries.filter((entry) => entry !== chosen);
      if (deeper.length > 0)
        return objectOf([...rest, [chosen[0], damaged(chosen[1], { at: deeper, kind, value: odd, name })]]);
      if (kind === "remove") return objectOf(rest);
      if (kind === "replace") return objectOf([...rest, [chosen[0], odd]]);
    }
    if (kind === "add") return objectOf([...entries, [name, odd]]);
  }
  return kind === "wrap" ? [value] : odd;
}

/** Treats `__proto__` as an ordinary name. */
function objectOf(entries: readonly (readonly [string, unknown])[]): object {
  const made = {};
  for (const [name, value] of entries) {
    Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return made;
}

const segment = fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: nastyText });
const damagedRequest = fc.record({
  operation: fc.nat(1000),
  key: fc.nat(100),
  foreign: fc.nat(5).map((n) => n === 0),
  segments: fc.array(segment, { minLength: 5, maxLength: 5 }),
  damages: fc.array(damage, { maxLength: 2 }),
  query: fc.array(fc.tuple(fc.nat(10), nastyText), { maxLength: 2 }),
  raw: fc.option(fc.oneof(fc.constantFrom("{", "[]", '"', "null", "{}x", "\0", "[".repeat(3000)), fc.string()), {
    freq: 12,
  }),
  type: fc.constantFrom(
    ...Array.from({ length: 8 }, () => "application/json"),
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain",
    "x",
  ),
  header: fc.option(
    fc.tuple(
      fc.constantFrom("idempotency-key", "if-none-match", "last-event-id", "x-request-id", "origin", "authorization"),
      fc.stringMatching(/^[ -~]{0,60}$/),
    ),
    { freq: 4 },
  ),
});
type Request = typeof damagedRequest extends fc.Arbitrary<infer T> ? T : never;
/** Leaves one request in six intact, so that damaged ones also meet a server with changing data. */
const WHOLE = { segments: [], damages: [], query: [], raw: null, type: "application/json", header: null };
const request: fc.Arbitrary<Request> = fc.oneof(
  { weight: 5, arbitrary: damagedRequest },
  { weight: 1, arbitrary: damagedRequest.map((asked) => ({ ...asked, ...WHOLE, foreign: false })) },
);

/** Replaces lone surrogates, which neither a URL nor a body can carry. */
const wellFormed = (text: string) => text.replaceAll(/\p{Surrogate}/gu, "\ufffd");
const encoded = (text: string) => encodeURIComponent(wellFormed(text));

async function send(operations: readonly Operation[], asked: Request): Promise<number> {
  const operation = operations[asked.operation % operations.length];
  if (operation === undefined) throw new Error("no operation");
  const target = asked.foreign ? tenants.foreign : tenants.own;
  const { query = "", body } = sampleOf(operation, target, api.callers.owner);
  let at = 0;
  const odd: Record<string, string> = {};
  for (const [, name = ""] of operation.path.matchAll(/\{(\w+)\}/g)) {
    const given = asked.segments[at];
    at += 1;
    if (given !== undefined && given !== "" && given !== "." && given !== "..") odd[name] = wellFormed(given);
  }
  const path = pathOf(operation, { ...target, ...odd, ...(odd["key"] === undefined ? {} : { featureId: odd["key"] }) });
  const known = [...Object.keys(operation.query?.shape ?? {}), "organizationId", "limit", "q"];
  const parameters = [
    query.slice(1),
    ...asked.query.map(([name, value]) => `${known[name % known.length]}=${encoded(value)}`),
  ];
  const url = `${path}?${parameters.filter(Boolean).join("&")}`;
  const headers: Record<string, string> = {};
  const key = keys[asked.key % keys.length];
  if (key !== undefined) headers["x-api-key"] = key;
  if (asked.header !== null) headers[asked.header[0]] = asked.header[1];
  const init: RequestInit = { method: operation.method, headers };
  if (operation.method !== "GET") {
    if (asked.raw !== null) {
      init.body = wellFormed(asked.raw);
      headers["content-type"] = asked.type;
    } else if (body instanceof FormData) {
      const damage = asked.damages[0];
      const file = body.get("pricing");
      const text = file instanceof File ? await file.text() : "";
      const cut = text.length === 0 ? 0 : (damage?.at[0] ?? 0) * 97;
      const form = new FormData();
      const broken =
        damage === undefined ? text : text.slice(0, cut) + String(damage.name) + text.slice(cut + (damage.at[1] ?? 0));
      form.append("pricing", new Blob([broken]), "p.yml");
      init.body = form;
    } else {
      init.body = JSON.stringify(asked.damages.reduce<unknown>(damaged, body ?? {})) ?? "";
      headers["content-type"] = asked.type;
    }
  }
  const prefix = operation.base === "/" ? "" : "/api/v1";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const hang = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${operation.method} ${url} hangs`)), HANG_MS);
  });
  const answer = await Promise.race([api.app.request(`${prefix}${url}`, init), hang]).finally(() =>
    clearTimeout(timer),
  );
  const stream = answer.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
  const text = stream ? "" : await answer.text();
  await answer.body?.cancel().catch(() => {});
  expect(
    answer.status,
    `${operation.method} ${url} ${String(init.body).slice(0, 300)} answered ${text} ${JSON.stringify(api.logged.at(-1))}`,
  ).toBeLessThan(500);
  if (answer.status >= 400)
    expect(JSON.parse(text)).toHaveProperty(
      operation.base === "/" ? (text.includes('"error"') ? "error" : "errorCode") : "error",
    );
  return answer.status;
}

/** Sign-up and sign-in hash for 200 ms; users-malformed.pg.test.ts covers what they reject before that. */
const HASHING = new Set(["POST /users", "POST /users/authenticate", "POST /sessions"]);
/**
 * Groups without a successful call. The reference page gets its files from an entry point, providers sign their messages,
 * and a recovery counts as a failed sign-in, so that its sample names nobody.
 */
const NEVER = new Set(["docs", "billing", "auth", "recovery"]);
const groups = new Map<string, Operation[]>();
for (const operation of OPERATIONS) {
  if (HASHING.has(nameOf(operation))) continue;
  const inside = operation.path.replace("/organizations/{organizationId}/", "/organization's ");
  const group = inside.split("/")[1] ?? "";
  groups.set(group, [...(groups.get(group) ?? []), operation]);
}

test.each([...groups])(
  `nothing that is sent to %s is answered with 5xx or not at all (seed ${SEED})`,
  async (group, operations) => {
    const numRuns = Math.min(MAX_CASES, operations.length * CASES_PER_OPERATION);
    let cases = 0;
    let succeeded = 0;
    await fc.assert(
      fc.asyncProperty(request, async (asked) => {
        const status = await send(operations, asked);
        if (status < 300) succeeded += 1;
        cases += 1;
        // A change may have removed the target of the next request.
        if (cases % 50 === 0) {
          await checkAndRestore();
          api.setNow(new Date(api.resources.now().getTime() + 60_000));
        }
      }),
      { numRuns, seed: SEED, endOnFailure: true },
    );
    if (!NEVER.has(group)) expect(succeeded).toBeGreaterThan(numRuns / 50);
  },
);
