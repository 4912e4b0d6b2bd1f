import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

/* `after`: pages in the order of ids, which rows that come and go meanwhile do not shift. */

let api: TestApi;
let key: string;
let admin: string;
let organizationId: string;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  admin = api.callers.platformAdmin.key;
  ({ organizationId } = api.callers);
  await upload(api, key, tasker());
});
afterAll(() => api.close());

const COUNT = 12;
const at = (days: number) => new Date(Date.UTC(2025, 6, days)).toISOString();

/** A listing, how to add an entry to it and to remove one, and what names an entry. */
interface Listing {
  path: string;
  caller: () => string;
  add: (number: number) => Promise<unknown>;
  remove: (name: string) => Promise<{ status: number }>;
  nameOf: (entry: Record<string, unknown>) => string;
  entriesOf?: (body: unknown) => Record<string, unknown>[];
}
const data = (body: unknown) => (body as { data: Record<string, unknown>[] }).data;
const subscribed = (userId: string) => contract(api, key, userId);

const LISTINGS: Record<string, Listing> = {
  contracts: {
    path: "/contracts?q=listed",
    caller: () => key,
    add: (number) => subscribed(`listed-${number}`),
    remove: (name) => api.call("DELETE", `/contracts/${name}`, { key }),
    nameOf: (entry) => (entry["userContact"] as { userId: string }).userId,
  },
  services: {
    path: "/services?name=paged",
    caller: () => key,
    add: (number) => upload(api, key, tasker({ name: `Paged-${number}` })),
    remove: (name) => api.call("DELETE", `/services/${name}`, { key }),
    nameOf: (entry) => String(entry["name"]),
  },
  overrides: {
    path: "/overrides?name=maxTasks",
    caller: () => key,
    add: async (number) => {
      await subscribed(`excepted-${number}`);
      const path = `/contracts/excepted-${number}/overrides/tasker/usageLimits/maxTasks`;
      const body = { value: number, mode: "set", reason: "Agreed", until: at(40 - number) };
      expect(await api.call("PUT", path, { key, body })).toMatchObject({ status: 200 });
    },
    remove: (name) => api.call("DELETE", `/contracts/${name}/overrides/tasker/usageLimits/maxTasks`, { key }),
    nameOf: (entry) => String(entry["userId"]),
  },
  scheduled: {
    path: "/scheduled?kind=novation",
    caller: () => key,
    add: async (number) => {
      await subscribed(`later-${number}`);
      const body = {
        at: at(40 - number),
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "BASIC" },
        subscriptionAddOns: {},
        reason: "Asked for",
      };
      const path = `/contracts/later-${number}/scheduled`;
      expect(await api.call("POST", path, { key, body })).toMatchObject({ status: 201 });
    },
    remove: async (name) => {
      const { body } = await api.call<{ id: string }[]>("GET", `/contracts/${name}/scheduled`, { key });
      return api.call("DELETE", `/contracts/${name}/scheduled/${body[0]?.id}`, { key });
    },
    nameOf: (entry) => String(entry["userId"]),
  },
  users: {
    path: "/users?q=pageuser",
    caller: () => admin,
    add: (number) => api.newUser(`pageuser-${number}`),
    remove: (name) => api.call("DELETE", `/users/${name}`, { key: admin }),
    nameOf: (entry) => String(entry["username"]),
    entriesOf: data,
  },
  organizations: {
    path: "/organizations?q=Paged",
    caller: () => admin,
    add: (number) => api.newOrganization(api.callers.owner, `Paged ${number}`),
    remove: async (name) => {
      const found = await api.call("GET", `/organizations?q=${encodeURIComponent(name)}&limit=50`, { key: admin });
      const match = data(found.body).find((each) => each["name"] === name);
      return api.call("DELETE", `/organizations/${String(match?.["id"])}`, { key: admin });
    },
    nameOf: (entry) => String(entry["name"]),
    entriesOf: data,
  },
};

describe.each(Object.entries(LISTINGS))("%s", (_, listing) => {
  const page = async (after: string) => {
    const answer = await api.call(`GET`, `${listing.path}&limit=4&after=${after}`, { key: listing.caller() });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const entries = (listing.entriesOf ?? ((body) => body as Record<string, unknown>[]))(answer.body);
    return { names: entries.map(listing.nameOf), next: answer.headers.get("next-after") };
  };
  const all = async (between: (names: string[]) => Promise<void> = async () => {}) => {
    const names: string[] = [];
    for (let after: string | null = ""; after !== null;) {
      const read: { names: string[]; next: string | null } = await page(after);
      names.push(...read.names);
      after = read.next;
      await between(names);
    }
    return names;
  };
  beforeAll(async () => {
    for (let number = 1; number <= COUNT; number += 1) await listing.add(number);
  });

  test("come page by page, each once, whatever is deleted and created meanwhile", async () => {
    const before = await all();
    expect(new Set(before).size).toBe(COUNT);
    expect(before).toHaveLength(COUNT);
    let step = 0;
    const read = await all(async (names) => {
      step += 1;
      if (step > 2) return;
      // One that has been read goes, one that has not goes, and one comes.
      for (const name of [names[0], before.findLast((each) => !names.includes(each))]) {
        if (name !== undefined && step === 1) expect((await listing.remove(name)).status).toBeLessThan(300);
      }
      await listing.add(COUNT + step);
    });
    expect(new Set(read).size).toBe(read.length);
    for (const name of before.slice(0, -1)) expect(read).toContain(name);
  });

  test("refuse a place that is none, and one beside another order", async () => {
    const ask = (query: string) => api.call("GET", `${listing.path}&${query}`, { key: listing.caller() });
    for (const after of ["x", "5", "..", "%00", "0".repeat(23), `${"0".repeat(24)}.a b`]) {
      expect(await ask(`after=${after}`), after).toMatchObject({
        status: 400,
        body: { error: "INVALID DATA: after must be empty, the id of an entry, or what Next-After said" },
      });
    }
    for (const other of ["page=2", "offset=1", "sort=email", "order=desc"]) {
      expect(await ask(`after=&${other}`)).toMatchObject({
        status: 400,
        body: { error: `INVALID DATA: after cannot be combined with ${other.split("=")[0]}` },
      });
    }
    expect((await ask(`after=${"f".repeat(24)}`)).status).toBe(200);
  });
});

test("contracts are listed inside an organization in the same way, with the number of all matches", async () => {
  const path = `/organizations/${organizationId}/contracts?q=listed&limit=2&after=`;
  const answer = await api.call<unknown[]>("GET", path, { key: api.callers.owner.key });
  expect(answer.body).toHaveLength(2);
  expect(Number(answer.headers.get("x-total-count"))).toBeGreaterThan(COUNT - 2);
  expect(answer.headers.get("next-after")).toMatch(/^[0-9a-f]{24}$/);
});
