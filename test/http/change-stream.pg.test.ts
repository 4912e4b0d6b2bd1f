import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { SnapshotAnswer, SnapshotEntry } from "../../src/core/snapshot.ts";
import { contextOf } from "../../src/operations/context.ts";
import { applyDueChanges } from "../../src/operations/due-changes.ts";
import { takeSnapshot } from "../../src/operations/evaluation/snapshot.ts";
import { createApp } from "../../src/http/app.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { callStep, changeServices } from "../support/every-change.ts";

/* Cases 19 and 20 of contract tokens-and-leases §10. */

interface Message {
  event: string;
  data: { at?: string; contracts?: string[] | null };
}

interface Opened {
  response: Response;
  messages: Message[];
  /** Text received so far. */
  text(): string;
  ended: Promise<void>;
  /** Waits for a beat that proves every commit until now, and returns the messages before it, from `start` on. */
  provenFrom(start: number): Promise<Message[]>;
  close(): Promise<void>;
}

const LATEST_MS = 30_000;
const DAY = 86_400_000;
let api: TestApi;
let key: string;
let skew = 0;
const streams: Opened[] = [];

beforeAll(async () => {
  api = await createTestApi({ resources: { now: () => new Date(Date.now() + skew) } });
  key = api.callers.all.key;
  await upload(api, key, tasker());
});
afterEach(async () => {
  for (const stream of streams.splice(0)) await stream.close();
  skew = 0;
});
afterAll(() => api.close());

async function open(given: string | undefined, app: TestApi["app"] = api.app): Promise<Opened> {
  const headers = new Headers(given === undefined ? {} : { "x-api-key": given });
  const response = await app.request("/api/v1/events/stream?changes=true", { headers });
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  const messages: Message[] = [];
  let text = "";
  let seen = "";
  const ended = (async () => {
    for (;;) {
      const piece = await reader?.read();
      if (piece === undefined || piece.done) return;
      const more = decoder.decode(piece.value, { stream: true });
      seen += more;
      const parts = (text + more).split("\n\n");
      text = parts.pop() ?? "";
      for (const part of parts) {
        const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(part) ?? [];
        if (event !== undefined) messages.push({ event, data: JSON.parse(data ?? "") });
      }
    }
  })();
  const stream: Opened = {
    response,
    messages,
    text: () => seen,
    ended,
    provenFrom: async (start) => {
      const since = Date.now() + skew;
      const isProof = ({ event, data }: Message) => event === "beat" && Date.parse(data.at ?? "") >= since;
      await expect.poll(() => messages.slice(start).some(isProof), { timeout: LATEST_MS, interval: 5 }).toBe(true);
      return messages.slice(start, start + messages.slice(start).findIndex(isProof));
    },
    close: async () => {
      await reader?.cancel();
      await ended.catch(() => {});
    },
  };
  streams.push(stream);
  return stream;
}

const changesIn = (messages: readonly Message[]) => messages.filter(({ event }) => event === "change");
/** Changes that name contracts. A process that misses a heartbeat, as on a busy machine, announces any contract to everybody. */
const namedIn = (messages: readonly Message[]) => changesIn(messages).filter(({ data }) => data.contracts !== null);
const isAnnounced = (messages: readonly Message[], contractId: string) =>
  changesIn(messages).some(({ data }) => data.contracts === null || data.contracts?.includes(contractId));

describe("19: the stream of changes", () => {
  it("is for organization keys of every scope, and for nobody else", async () => {
    expect((await open(undefined)).response.status).toBe(401);
    const user = await open(api.callers.owner.key);
    expect(user.response.status).toBe(403);
    await user.ended;
    expect(user.text()).toContain("Changes are told to organization keys only");
    for (const { key: given } of [api.callers.all, api.callers.management, api.callers.evaluation]) {
      const stream = await open(given);
      expect(stream.response.status).toBe(200);
      expect(stream.response.headers.get("content-type")).toMatch(/^text\/event-stream/);
    }
    const other = await api.app.request("/api/v1/events/stream?changes=TRUE", { headers: { "x-api-key": key } });
    const first = await other.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toContain("id: ");
  });

  it("beats as soon as it can, then several times a second, and never names a user", async () => {
    const opened = Date.now();
    const stream = await open(api.callers.evaluation.key);
    await stream.provenFrom(0);
    const { id } = await contract(api, key, "unnamed");
    await api.call("PUT", "/contracts/unnamed/userContact", { key, body: { email: "unnamed@example.com" } });
    expect(isAnnounced(await stream.provenFrom(0), id)).toBe(true);
    await expect
      .poll(() => stream.messages.filter(({ event }) => event === "beat").length, { timeout: 20_000 })
      .toBeGreaterThan(6);
    const beats = stream.messages.flatMap(({ data }) => (data.at === undefined ? [] : [Date.parse(data.at)]));
    expect(beats).toEqual(beats.toSorted((a, b) => a - b));
    expect(beats[0]).toBeGreaterThanOrEqual(opened - 1);
    expect(stream.text()).not.toMatch(/unnamed|^id:/m);
  });

  it("ends with its key", async () => {
    const { owner, organizationId } = api.callers;
    const { body } = await api.call<{ apiKeys: { id: string; key: string }[] }>(
      "POST",
      `/organizations/${organizationId}/api-keys`,
      { key: owner.key, body: { scope: "EVALUATION" } },
    );
    const fleeting = body.apiKeys.at(-1);
    const stream = await open(fleeting?.key);
    await stream.provenFrom(0);
    await api.call("DELETE", `/organizations/${organizationId}/api-keys/${fleeting?.id}`, { key: owner.key });
    await stream.ended;
    expect((await open(fleeting?.key)).response.status).toBe(401);
  });

  it("is refused where changes cannot be followed", async () => {
    const app = createApp({
      open: () => ({ ...api.resources, invalidations: undefined }),
      settings: { allowedOrigins: [], baseUrlPath: "" },
    });
    const stream = await open(key, app);
    expect(stream.response.status).toBe(503);
    await stream.ended;
    expect(stream.text()).toContain("Changes cannot be followed here: connect to Node, Bun or Deno");
  });

  it("takes a place like every stream, and frees it", async () => {
    const settings = { allowedOrigins: [], baseUrlPath: "", maxStreams: 4 };
    const app = createApp({ open: () => api.resources, settings });
    const first = await open(key, app);
    expect(first.response.status).toBe(200);
    expect((await open(api.callers.evaluation.key, app)).response.status).toBe(429);
    await first.close();
    expect((await open(key, app)).response.status).toBe(200);
  });
});

/** Versions of an organization's existing contracts, as snapshots show them. */
async function versionsOf(organizationId: string): Promise<Map<string, string | null>> {
  const rows = await api.database.connection.client<{ user_id: string }[]>`
    select user_id from contracts where organization_id = ${organizationId}`;
  const caller = { kind: "key", keyId: "k", organizationId, scope: "EVALUATION" } as const;
  const users = rows.map(({ user_id: userId }) => ({ userId }));
  if (users.length === 0) return new Map();
  const input = { users, knownPricings: [], knownGrants: [] };
  const text = await takeSnapshot(contextOf(api.resources, caller), input, ({ code, message }) => ({
    status: code.length,
    error: message,
  }));
  const entries = (JSON.parse(text) as SnapshotAnswer).users as SnapshotEntry[];
  return new Map(entries.map(({ contractId, version }) => [contractId ?? "", version]));
}

async function keyOf(organizationId: string): Promise<string> {
  const { body } = await api.call<{ apiKeys: { key: string }[] }>("POST", `/organizations/${organizationId}/api-keys`, {
    key: api.callers.owner.key,
    body: { scope: "EVALUATION" },
  });
  return body.apiKeys.at(-1)?.key ?? "";
}

describe("20: every change of an entry is announced before the next beat", () => {
  it("by every operation on services and contracts, below an organization or not, and to nobody else", async () => {
    const bystander = await open(key);
    await bystander.provenFrom(0);
    const start = bystander.messages.length;
    /** Returns how many changes were announced. */
    const announcedBelow = async (below: "" | "/organizations/:organizationId") => {
      let stream: Opened | undefined;
      let announced = 0;
      await changeServices(api, below, async (step, ids) => {
        const organizationId = ids["organizationId"] ?? "";
        if (stream === undefined) {
          stream = await open(await keyOf(organizationId));
          await stream.provenFrom(0);
        }
        const before = await versionsOf(organizationId);
        const position = stream.messages.length;
        const taken = await callStep(api, step, ids);
        const messages = await stream.provenFrom(position);
        const after = await versionsOf(organizationId);
        for (const [contractId, version] of before) {
          if (after.get(contractId) === version) continue;
          announced += 1;
          expect(isAnnounced(messages, contractId), `${below} ${step.route}`).toBe(true);
        }
        return taken;
      });
      return announced;
    };
    // Mostly waits for beats.
    for (const announced of await Promise.all([announcedBelow(""), announcedBelow("/organizations/:organizationId")]))
      expect(announced).toBeGreaterThan(6);
    expect(namedIn(await bystander.provenFrom(start))).toEqual([]);
  });

  it("by time: a scheduled change, the end of a trial and a renewal, once they are carried out", async () => {
    const stream = await open(key);
    const other = { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "BASIC" } };
    const planned = await contract(api, key, "planned", {
      billingPeriod: { autoRenew: true, renewalDays: 30 },
    });
    const tried = await contract(api, key, "tried", { trial: { days: 3, then: "end" } });
    const at = new Date(Date.now() + DAY).toISOString();
    const scheduled = await api.call("POST", "/contracts/planned/scheduled", {
      key,
      body: { at, ...other, subscriptionAddOns: {} },
    });
    expect(scheduled.status).toBe(201);
    await stream.provenFrom(0);
    const due = async (days: number, work: () => Promise<unknown>) => {
      const position = stream.messages.length;
      skew = days * DAY;
      await work();
      return stream.provenFrom(position);
    };
    const caller = {
      kind: "key",
      keyId: "k",
      organizationId: api.callers.organizationId,
      scope: "EVALUATION",
    } as const;
    const sweep = () => applyDueChanges(contextOf(api.resources, caller));
    expect(isAnnounced(await due(2, sweep), planned.id)).toBe(true);
    expect(isAnnounced(await due(5, sweep), tried.id)).toBe(true);
    const evaluate = () => api.call("POST", "/features/planned", { key, body: {} });
    expect(isAnnounced(await due(40, evaluate), planned.id)).toBe(true);
  });

  it("to nobody else when an organization is deleted, which ends its streams", async () => {
    const { id: organizationId, key: ownKey } = await api.newOrganization(api.callers.owner, "Fleeting");
    await upload(api, ownKey, tasker());
    await contract(api, ownKey, "mover");
    const stream = await open(ownKey);
    const bystander = await open(key);
    await Promise.all([stream.provenFrom(0), bystander.provenFrom(0)]);
    const start = bystander.messages.length;
    await api.call("DELETE", `/organizations/${organizationId}`, { key: api.callers.owner.key });
    await stream.ended;
    expect(namedIn(await bystander.provenFrom(start))).toEqual([]);
  });

  it("as any, for more contracts at once than messages list", async () => {
    const { client } = api.database.connection;
    await client`
      insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      select 'many-' || n, ${api.callers.organizationId}, 'many-' || n, 'many', now(), now()
      from generate_series(1, 150) n`;
    const stream = await open(key);
    await stream.provenFrom(0);
    const changesOf = async (work: () => Promise<unknown>) => {
      const position = stream.messages.length;
      await work();
      return changesIn(await stream.provenFrom(position)).map(({ data }) => data.contracts);
    };
    const touch = (from: number, to: number) =>
      client`update contracts set updated_at = now() where user_id like 'many-%'
        and substr(user_id, 6)::int between ${from} and ${to}`;
    expect(new Set(await changesOf(() => touch(1, 150)))).toEqual(new Set([null]));
    const isNamed = (list: string[] | null | undefined) => list !== null;
    const one = (await changesOf(() => touch(1, 90))).filter(isNamed);
    expect(one.flat().toSorted()).toEqual(Array.from({ length: 90 }, (_, n) => `many-${n + 1}`).toSorted());
    const moved = () => client.begin(async () => [await touch(1, 80), await touch(81, 150)]);
    const both = (await changesOf(moved)).filter(isNamed);
    expect(both.every((list) => list != null && list.length <= 100)).toBe(true);
    expect(new Set(both.flat()).size).toBe(150);
  });

  it("never by consumption, or by new contracts", async () => {
    const { id } = await contract(api, key, "quiet");
    const stream = await open(key);
    await stream.provenFrom(0);
    const position = stream.messages.length;
    await api.call("POST", "/features/quiet/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
    await api.call("POST", "/features/quiet/tasker-board?revert=true", { key });
    await contract(api, key, "newcomer");
    await contract(api, key, "newcomer-in-trial", { trial: { days: 3, then: "end" } });
    const messages = await stream.provenFrom(position);
    expect(namedIn(messages)).toEqual([]);
    expect(id).toMatch(/^[0-9a-f]{24}$/);
  });

  it("as any, before the first beat after the process may have missed something", async () => {
    const stream = await open(key);
    await stream.provenFrom(0);
    const position = stream.messages.length;
    const { client } = api.database.connection;
    const { id } = await contract(api, key, "missed");
    await client`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'faregate-test-changes'`;
    await client`update contracts set updated_at = now() where id = ${id}`;
    const messages = await stream.provenFrom(position);
    expect(changesIn(messages).map(({ data }) => data.contracts)).toContain(null);
  });
});
