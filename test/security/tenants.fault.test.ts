import { afterAll, beforeAll, expect, test } from "vitest";
import { OPERATIONS } from "../../src/wire/operations.ts";
import type { Operation } from "../../src/wire/operation.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { ROWS } from "./tenant-rows.ts";
import {
  createTenants,
  type KeptState,
  keepState,
  nameOf,
  pathOf,
  sampleOf,
  stateOf,
  type Tenant,
  type Tenants,
} from "./tenants.ts";

let api: TestApi;
let tenants: Tenants;
let state: KeptState;
let callers: { username: string; key: string | undefined }[];

beforeAll(async () => {
  api = await createTestApi();
  tenants = await createTenants(api);
  const { platformAdmin, outsider, owner, organizationAdmin, manager, evaluator, organizationId } = api.callers;
  const { all, management, evaluation } = api.callers;
  const made = await api.call<{ apiKeys: { id: string; key: string }[] }>(
    "POST",
    `/organizations/${organizationId}/api-keys`,
    { key: owner.key, body: { scope: "ALL" } },
  );
  const revoked = made.body.apiKeys.at(-1);
  await api.call("DELETE", `/organizations/${organizationId}/api-keys/${revoked?.id}`, { key: owner.key });
  const organizationKey = ({ key }: { key: string }) => ({ username: "a key", key });
  callers = [
    { username: "nobody", key: undefined },
    { username: "broken", key: `${all.key.slice(0, -1)}${all.key.endsWith("0") ? "1" : "0"}` },
    { username: "revoked", key: revoked?.key },
    platformAdmin,
    outsider,
    owner,
    organizationAdmin,
    manager,
    evaluator,
    ...[all, management, evaluation].map(organizationKey),
  ];
  state = await keepState(api);
  untouched = await stateOf(api, tenants.foreign);
});
afterAll(() => api.close());

const PLATFORM_ADMIN = 3;
const LETTERS: Record<number, string> = { 400: "b", 401: "k", 403: "f", 404: "n", 409: "c", 422: "u" };
const letterOf = (status: number) => (status < 300 ? "s" : (LETTERS[status] ?? String(status)));

interface Told {
  status: number;
  headers: Headers;
  body: string;
  /** Texts of the request, which an error may repeat. */
  sent: string;
}

/** Calls one operation about the rows of `target`, in the organization that `at` names. */
async function ask(operation: Operation, caller: number, target: Tenant, at: Tenant): Promise<Told> {
  const who = callers[caller];
  if (who === undefined) throw new Error(`no caller ${caller}`);
  const subject = { ...target, organizationId: at.organizationId };
  const { query = "", body } = sampleOf(operation, subject, who);
  let path = `${pathOf(operation, subject)}${query}`;
  // A key that names another organization gets the answer that it gets without naming it.
  if (target !== tenants.own && !operation.path.includes("{organizationId}")) {
    path += `${query === "" ? "?" : "&"}organizationId=${target.organizationId}`;
  }
  const sent = `${path} ${body instanceof FormData ? target.serviceName : JSON.stringify(body)}`.toLowerCase();
  if (operation.mediaType === "text/event-stream") {
    const {
      status,
      headers,
      body: stream,
    } = await api.app.request(`/api/v1${path}`, {
      headers: { "x-api-key": who.key ?? "" },
    });
    const reader = stream?.getReader();
    const first = await reader?.read();
    await reader?.cancel();
    return { status, headers, body: new TextDecoder().decode(first?.value), sent };
  }
  const answer = await api.call(operation.method, path, { key: who.key, body });
  return { ...answer, body: JSON.stringify(answer.body), sent };
}

let minute = 0;
/** State of the foreign tenant's rows after the last restore. */
let untouched: string;

/**
 * Collects the answers of every caller. Fails if a caller other than the platform ADMIN learns of the foreign tenant or
 * changes it.
 */
async function askAll(operation: Operation, target: Tenant, at: Tenant): Promise<Told[]> {
  // Raise the limits per minute, which are not under test.
  api.setNow(new Date(Date.UTC(2025, 5, 15, 10, (minute += 1))));
  const isWrite = operation.method !== "GET";
  const asked = [...callers.keys()];
  const reads = isWrite ? [] : await Promise.all(asked.map((caller) => ask(operation, caller, target, at)));
  const answers: Told[] = [];
  for (const [caller, { username }] of callers.entries()) {
    const told = reads[caller] ?? (await ask(operation, caller, target, at));
    answers.push(told);
    const succeeded = isWrite && told.status < 300;
    if (caller === PLATFORM_ADMIN) {
      if (succeeded) {
        await state.restore();
        untouched = await stateOf(api, tenants.foreign);
      }
      continue;
    }
    const text = `${told.body} ${JSON.stringify([...told.headers])}`.toLowerCase();
    const leaked = tenants.markers
      .map((marker) => marker.toLowerCase())
      .filter((marker) => text.includes(marker) && !told.sent.includes(marker));
    expect(leaked, `${nameOf(operation)} as ${username} answered ${text}`).toEqual([]);
    // Looking for any written row takes a tenth of the time of comparing the tenant's.
    if (succeeded && (await state.hasChanged())) {
      expect(await stateOf(api, tenants.foreign), `${nameOf(operation)} as ${username}`).toBe(untouched);
      await state.restore();
    }
  }
  if (isWrite && (await state.hasChanged()))
    expect(await stateOf(api, tenants.foreign), nameOf(operation)).toBe(untouched);
  return answers;
}

const wordOf = (answers: readonly Told[]) => answers.map(({ status }) => letterOf(status)).join("");

/** Removes the names that the request itself contained. */
function withoutNames({ body }: Told, target: Tenant): string {
  const names = Object.values(target)
    .filter((name) => name.length > 3)
    .toSorted((a, b) => b.length - a.length);
  return names.reduce((text, name) => text.replaceAll(new RegExp(name, "gi"), "…"), body);
}

/** Any user key may look up users: contract users-organizations §3.4. The address of a connection is public: contract billing. */
const PUBLIC_TARGETS = /^\w+ \/(users|billing)\//;

test("every operation has a row, and every row an operation", () => {
  expect([...ROWS.keys()].toSorted()).toEqual(OPERATIONS.map(nameOf).toSorted());
});

test.each(OPERATIONS.map((operation) => [nameOf(operation), operation] as const))("%s", async (name, operation) => {
  const { own, foreign, missing } = tenants;
  const isInside = operation.path.includes("{organizationId}");
  // Every organization has the same providers.
  const hasTarget = /\{(?!organizationId|provider)/.test(operation.path) || operation.path.startsWith("/ofrep/");
  const isAboutOrganization = isInside && !hasTarget;
  const ofOwn = await askAll(operation, own, own);
  const ofForeign = isAboutOrganization ? undefined : await askAll(operation, foreign, own);
  const atForeign = isInside ? await askAll(operation, foreign, foreign) : undefined;
  const ofMissing = await askAll(operation, missing, isAboutOrganization ? missing : own);
  expect([ofOwn, ofForeign, atForeign, ofMissing].map((answers) => (answers ? wordOf(answers) : "-")).join(" ")).toBe(
    ROWS.get(name),
  );
  if (!hasTarget || PUBLIC_TARGETS.test(name)) return;
  for (const caller of callers.keys()) {
    if (caller === PLATFORM_ADMIN) continue;
    const [hidden, absent] = [ofForeign?.[caller], ofMissing[caller]];
    if (hidden === undefined || absent === undefined) throw new Error("no answer");
    expect(withoutNames(hidden, foreign), `${name} as ${callers[caller]?.username}`).toBe(
      withoutNames(absent, missing),
    );
  }
});
