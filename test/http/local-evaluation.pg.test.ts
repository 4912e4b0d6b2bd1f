import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { type Invalidations, listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import type { Resources } from "../../src/operations/context.ts";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

/* Local evaluation under way, over several processes. Source: contract tokens-and-leases §8 "Seen". */

interface Answer {
  evaluators: number;
  leases: number;
  held: { service: string; limit: string; leases: number; amount: number }[];
}
interface Process {
  app: TestApi["app"];
  resources: Resources;
  changes: Invalidations;
}

const NONE = { evaluators: 0, leases: 0, held: [] };
let api: TestApi;
let b: TestOrganization;
let other: Process;
let processes: Invalidations[] = [];
const opened: (() => Promise<void>)[] = [];

beforeAll(async () => {
  api = await createTestApi();
  b = await api.newOrganization(await api.newUser("stranger"), "Stranger");
  await upload(api, api.callers.all.key, tasker());
});
beforeEach(() => {
  other = startProcess();
});
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
  for (const process of processes.splice(0)) await process.close();
  await api.resources.evaluators.flush();
});
afterAll(() => api.close());

/** Starts what a second REST process has. Closing its listener without a flush is a crash. */
function startProcess(): Process {
  const changes = listenForInvalidations(api.database.url, { applicationName: "faregate-other" });
  processes.push(changes);
  const { keyring, settings, now } = api.resources;
  const resources = createResources(api.database.connection, { changes, keyring, settings, now });
  return {
    app: createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } }),
    resources,
    changes,
  };
}

/** Opens a stream on a process that listens, and returns how to close it. */
async function open({ app, resources }: Pick<Process, "app" | "resources">, key: string, query = "?changes=true") {
  await expect.poll(() => resources.invalidations?.isFresh(), { timeout: 30_000 }).toBe(true);
  const response = await app.request(`/api/v1/events/stream${query}`, { headers: { "x-api-key": key } });
  expect(response.status).toBe(200);
  const reader = response.body?.getReader();
  const close = async () => void (await reader?.cancel());
  opened.push(close);
  await resources.evaluators.flush();
  return close;
}

const read = async (organizationId = api.callers.organizationId, key = api.callers.evaluator.key) =>
  (await api.call<Answer>("GET", `/organizations/${organizationId}/local-evaluation`, { key })).body;

const rows = async () => {
  const { client } = api.database.connection;
  const [row] = await client<{ n: number }[]>`select count(*)::int as n from evaluators`;
  return row?.n;
};

it("counts the streams of changes of every process, per organization", async () => {
  expect(await read()).toEqual(NONE);
  const { all, evaluation, owner } = api.callers;
  const close = await open(api, all.key);
  await open(other, evaluation.key);
  await open(other, all.key);
  await open(other, all.key, "");
  await open(other, b.key);
  expect(await read()).toEqual({ ...NONE, evaluators: 3 });
  expect(await read(b.id, api.callers.platformAdmin.key)).toEqual({ ...NONE, evaluators: 1 });
  await close();
  await close();
  await api.resources.evaluators.flush();
  expect(await read()).toEqual({ ...NONE, evaluators: 2 });
  expect((await api.call("GET", `/organizations/${"0".repeat(24)}/local-evaluation`, { key: owner.key })).status).toBe(
    404,
  );
});

it("stops counting a process that crashed with its connection, and deletes its rows with the next change", async () => {
  await open(other, api.callers.all.key);
  expect(await read()).toEqual({ ...NONE, evaluators: 1 });
  await other.changes.close();
  await expect.poll(() => read()).toEqual(NONE);
  expect(await rows()).toBe(1);
  await open(api, b.key);
  expect(await rows()).toBe(1);
  expect(await read(b.id, api.callers.platformAdmin.key)).toEqual({ ...NONE, evaluators: 1 });
});

it("counts a process again after its connection was lost and its rows were deleted", async () => {
  await open(other, api.callers.all.key);
  const { client } = api.database.connection;
  await client`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'faregate-other-changes'`;
  await client`delete from evaluators`;
  await expect
    .poll(
      async () => {
        await other.resources.evaluators.flush();
        return read();
      },
      { timeout: 30_000 },
    )
    .toEqual({ ...NONE, evaluators: 1 });
});

it("keeps counts that could not be written", async () => {
  const { client } = api.database.connection;
  await client`alter table evaluators rename to elsewhere`;
  const opening = open(other, api.callers.all.key);
  await expect(opening).rejects.toThrow("evaluators");
  await client`alter table elsewhere rename to evaluators`;
  await other.resources.evaluators.flush();
  expect(await read()).toEqual({ ...NONE, evaluators: 1 });
});

it("writes nothing for an organization that was deleted", async () => {
  const gone = await api.newOrganization(await api.newUser("leaver"), "Gone");
  await open(other, gone.key);
  const { client } = api.database.connection;
  await client`delete from organizations where id = ${gone.id}`;
  expect(await rows()).toBe(0);
  for (const close of opened.splice(0)) await close();
  await other.resources.evaluators.flush();
  expect(await rows()).toBe(0);
});

it("sums what is left of open leases, by limit", async () => {
  const { key } = api.callers.all;
  for (const userId of ["ada", "grace"]) await contract(api, key, userId);
  const lease = async (userId: string, amount: number, duration = "PT30S") => {
    const body = { for: duration, amounts: { "tasker-maxTasks": amount } };
    const answer = await api.call<{ lease: { id: string } }>("POST", `/features/${userId}/tasker-board/leases`, {
      key,
      body,
    });
    expect(answer.status).toBe(201);
    return answer.body.lease.id;
  };
  const spent = await lease("ada", 8);
  await lease("grace", 2.5);
  await lease("grace", 1, "PT10S");
  const ended = await lease("ada", 3);
  const report = { spent: { "tasker-maxTasks": 3 }, amounts: { "tasker-maxTasks": 0 } };
  expect((await api.call("POST", `/leases/${spent}`, { key, body: report })).status).toBe(200);
  expect((await api.call("DELETE", `/leases/${ended}`, { key })).status).toBe(204);
  const remaining = { spent: { "tasker-maxTasks": 1 } };
  const partly = await lease("ada", 6);
  expect((await api.call("POST", `/leases/${partly}`, { key, body: remaining })).status).toBe(200);
  expect(
    (await api.call("POST", "/features/ada/tasker-board?hold=PT1M", { key, body: { "tasker-maxTasks": 1 } })).status,
  ).toBe(200);
  const held = (leases: number, amount: number) => ({
    evaluators: 0,
    leases,
    held: [{ service: "tasker", limit: "maxTasks", leases, amount }],
  });
  expect(await read()).toEqual(held(3, 8.5));
  expect(await read(b.id, api.callers.platformAdmin.key)).toEqual(NONE);
  api.setNow(new Date(api.resources.now().getTime() + 10_000));
  expect(await read()).toEqual(held(2, 7.5));
});
