import { describe, expect, it } from "vitest";
import { EXPLANATIONS } from "../../src/core/space/explanations.ts";
import { runFaregate } from "./io.ts";

/*
 * `faregate compare` against two servers that give recorded answers: those of SPACE as files-and-migration §6 describes
 * them, one row of its table at a time.
 */

type Json = Record<string, unknown>;
type Answers = Record<string, { status: number; body: unknown }>;

const OLD = "https://space.example";
const NEW = "https://faregate.example/sub";
const NOW = Date.parse("2025-06-15T10:00:00.000Z");

const ok = (body: unknown) => ({ status: 200, body });
const token = (claims: Json) => {
  const part = (value: Json) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return ok({ pricingToken: `${part({ alg: "HS256" })}.${part(claims)}.${crypto.randomUUID()}` });
};

const PRICING = {
  version: "2.0.0",
  currency: "EUR",
  createdAt: "2024-02-01T00:00:00.000Z",
  features: { board: { name: "board", expression: "…" } },
  usageLimits: { maxTasks: { name: "maxTasks", defaultValue: 10 } },
  plans: { PRO: { name: "PRO", price: 9 } },
  addOns: {} as Json,
};

const contract = () => ({
  id: "c1",
  userContact: { userId: "u1", username: "one" },
  billingPeriod: {
    startDate: "2025-05-01T08:00:00.000Z",
    endDate: "2025-07-01T08:00:00.000Z",
    autoRenew: true,
    renewalDays: 30,
  },
  usageLevels: { tasker: { maxTasks: { consumed: 5, resetTimeStamp: "2025-07-01T00:00:00.000Z" } } } as Record<
    string,
    Json
  >,
  contractedServices: { tasker: "2.0.0" } as Json,
  subscriptionPlans: { tasker: "PRO" },
  subscriptionAddOns: {} as Json,
  history: [{ contractedServices: { tasker: "1.0.0" } }],
});

const detail = () => ({
  eval: true,
  used: { "tasker-maxTasks": 5 },
  limit: { "tasker-maxTasks": 10 } as Json | null,
  error: null as unknown,
});
const claims = () => ({
  features: { "tasker-board": { eval: true, limit: 10 as unknown, used: 5 as unknown, error: null } },
  pricingContext: { features: {}, usageLimits: {} },
  subscriptionContext: { "tasker-maxTasks": 5 },
  iat: NOW / 1000,
  exp: NOW / 1000 + 3600,
  sub: "u1",
});

/** Answers of one server, which each test changes. */
function server() {
  const parts = {
    services: [
      { id: "s1", name: "Tasker", disabled: false, activePricings: { "2.0.0": { id: "p2" } } as Json },
    ] as Json[],
    pricing: structuredClone(PRICING) as Json,
    contract: contract(),
    features: { "tasker-board": true } as Json,
    details: { "tasker-board": detail() } as Json,
    server: { "tasker-board": detail() } as Json,
    claims: claims() as Json,
    /** Answers in place of those above. */
    instead: {} as Answers,
  };
  const answers = (): Answers => ({
    "GET /services?limit=1000&offset=0": ok(parts.services),
    [`GET /services?limit=1000&offset=${parts.services.length}`]: ok([]),
    "GET /services/Tasker/pricings?pricingStatus=active": ok([parts.pricing]),
    "GET /services/Tasker/pricings?pricingStatus=archived": ok([]),
    "GET /contracts?limit=100&after=": ok([parts.contract]),
    "GET /contracts/u1": ok(parts.contract),
    "POST /features/u1": ok(parts.features),
    "POST /features/u1?details=true": ok(parts.details),
    "POST /features/u1?details=true&server=true": ok(parts.server),
    "POST /features/u1/pricing-token": token(parts.claims),
    ...parts.instead,
  });
  return { parts, answers };
}

const compare = (old: Answers, now: Answers, ...more: string[]) => compareWith(REPORTED, old, now, more);
const compareReported = (items: readonly object[], old: Answers, now: Answers) =>
  compareWith(items, old, now, ["--report", "report.json"]);

async function compareWith(left: readonly object[], old: Answers, now: Answers, more: readonly string[]) {
  const asked: string[] = [];
  let running = 0;
  let most = 0;
  const answer = async (input: string | URL | Request, init?: RequestInit) => {
    const url = String(input);
    const base = url.startsWith(`${OLD}/api/v1`) ? OLD : NEW;
    const line = `${init?.method ?? "GET"} ${url.slice(`${base}/api/v1`.length)}`;
    running += 1;
    most = Math.max(most, running);
    await new Promise((done) => setTimeout(done, 1));
    running -= 1;
    asked.push(`${base === OLD ? "old" : "new"} ${line}`);
    const none = line.startsWith("GET /contracts?") ? ok([]) : { status: 404, body: { error: "not found" } };
    const found = (base === OLD ? old : now)[line] ?? none;
    return new Response(JSON.stringify(found.body), { status: found.status });
  };
  const files = { "report.json": JSON.stringify({ carried: {}, changed: [], left, complete: false }) };
  const run = await runFaregate(["compare", "--old", OLD, "--new", NEW, "--key", "org_1", "--json", ...more], files, {
    fetch: answer,
    now: () => new Date(NOW),
  });
  return {
    run,
    asked,
    most,
    result: run.out === "" ? undefined : (JSON.parse(run.out) as { explained: Json; unexplained: Json[] }),
  };
}

const REPORTED = [
  { code: "level-invalid", kind: "level", id: "c1", name: "maxTasks of tasker for u1", detail: "-1 becomes 0" },
];

type Change = (old: ReturnType<typeof server>["parts"], now: ReturnType<typeof server>["parts"]) => void;
const error500 = (message = "boom") => ({ status: 500, body: { error: message } });
const CALLS = ["POST /features/u1", "POST /features/u1?details=true", "POST /features/u1?details=true&server=true"];

/** A change to the answers for each row of the table, with how many differences it makes. */
const ROWS: Record<(typeof EXPLANATIONS)[number], Change> = {
  "internal-fields": (old) => {
    Object.assign(old.services[0] ?? {}, { _id: "s1", __v: 0, activePricings: { "2.0.0": { id: "p2", _id: "x" } } });
    delete old.services[0]?.["id"];
    Object.assign(old.contract, { __v: 3, contractedServicesArray: ["tasker"] });
  },
  "version-spelling": (old) => {
    Object.assign(old.services[0] ?? {}, { activePricings: { "2_0_0": { id: "p2" } } });
    old.pricing["version"] = "2_0_0";
    old.contract.contractedServices["tasker"] = "2_0_0";
    old.contract.history = [{ contractedServices: { tasker: "1_0_0" } }];
  },
  "token-numbers": (old) => {
    const map = { "tasker-maxTasks": 10, other: 99 };
    old.claims["features"] = {
      "tasker-board": { eval: true, limit: map, used: { "tasker-maxTasks": 5 }, error: null },
    };
  },
  "token-cached": (old) => {
    old.claims = { ...old.claims, iat: NOW / 1000 - 60, features: {} };
  },
  "level-renewed": (old, now) => {
    const stale = { tasker: { maxTasks: { consumed: 9, resetTimeStamp: "2025-06-01T00:00:00.000Z" } } };
    old.contract.usageLevels = stale;
    now.contract.usageLevels = { tasker: { maxTasks: { consumed: 0, resetTimeStamp: "2025-07-01T00:00:00.000Z" } } };
    old.features = { "tasker-board": false };
    now.details = { "tasker-board": { ...detail(), used: { "tasker-maxTasks": 0 } } };
    now.claims["subscriptionContext"] = { "tasker-maxTasks": 0 };
  },
  "all-periods": (old) => {
    old.contract.billingPeriod.endDate = "2025-05-02T08:00:00.000Z";
  },
  "level-missing": (old) => {
    const error = { code: "PARSE_ERROR", message: "Feature tasker-board … that was not found in subscriptionContext." };
    old.details = { "tasker-board": { eval: false, used: null, limit: null, error } };
    old.features = { "tasker-board": false };
  },
  "extension-order": (old, now) => {
    withAddOns(old, now, { more: { usageLimitsExtensions: { maxTasks: 5 } }, base: { usageLimits: { maxTasks: 20 } } });
    old.details = { "tasker-board": { ...detail(), limit: { "tasker-maxTasks": 20 } } };
    now.details = { "tasker-board": { ...detail(), limit: { "tasker-maxTasks": 25 } } };
  },
  "extension-base": (old, now) => {
    withAddOns(old, now, { more: { usageLimitsExtensions: { maxTasks: 5 } } });
    old.details = { "tasker-board": { ...detail(), limit: { "tasker-maxTasks": null }, eval: false } };
  },
  "limit-null": (old, now) => {
    old.details = { "tasker-board": { ...detail(), limit: {} } };
    now.details = { "tasker-board": { ...detail(), limit: { "tasker-maxTasks": null } } };
  },
  "server-only": (old, now) => {
    const features = { board: { name: "board", serverExpression: "…" } };
    old.pricing["features"] = features;
    now.pricing["features"] = features;
    for (const call of CALLS.slice(0, 2)) old.instead[call] = error500();
  },
  status: (old, now) => {
    for (const call of CALLS) {
      old.instead[call] = error500("Invalid subscription: Plan GOLD not found");
      now.instead[call] = { status: 404, body: { error: "Plan GOLD not found" } };
    }
  },
  "dash-service": (old, now) => {
    for (const parts of [old, now]) parts.contract.contractedServices["my-service"] = "1";
    old.instead[CALLS[0] ?? ""] = error500();
  },
  "gone-service": (old) => {
    old.contract.contractedServices["gone"] = "1.0";
    old.contract.usageLevels["gone"] = { calls: { consumed: 1 } };
    old.instead[CALLS[0] ?? ""] = error500();
  },
  reported: (old) => {
    old.contract.usageLevels = { tasker: { maxTasks: { consumed: -1, resetTimeStamp: "2025-07-01T00:00:00.000Z" } } };
  },
};

function withAddOns(old: ReturnType<typeof server>["parts"], now: typeof old, addOns: Json): void {
  for (const parts of [old, now]) {
    parts.pricing["addOns"] = addOns;
    parts.contract.subscriptionAddOns["tasker"] = Object.fromEntries(Object.keys(addOns).map((name) => [name, 1]));
  }
}

describe("differences with a known reason", () => {
  it.each(EXPLANATIONS)("%s", async (code) => {
    const [old, now] = [server(), server()];
    ROWS[code](old.parts, now.parts);
    const { run, result } = await compare(old.answers(), now.answers(), "--report", "report.json");
    expect(result?.unexplained).toEqual([]);
    expect(Object.keys(result?.explained ?? {})).toEqual([code]);
    expect([run.code, run.err]).toEqual([0, ""]);
  });

  it("are none without that reason", async () => {
    const unlike: [string, Change][] = [
      [
        "a level that is not due",
        (old) =>
          (old.contract.usageLevels = {
            tasker: { maxTasks: { consumed: 9, resetTimeStamp: "2025-07-01T00:00:00.000Z" } },
          }),
      ],
      [
        "an end date that is later by some days",
        (old) => (old.contract.billingPeriod.endDate = "2025-06-25T08:00:00.000Z"),
      ],
      ["a field of the old server", (old) => Object.assign(old.contract, { notes: "x" })],
      [
        "a number that no entry has",
        (old) => (old.claims["features"] = { "tasker-board": { eval: true, limit: { x: 3 }, used: 5, error: null } }),
      ],
      [
        "another message",
        (old, now) => {
          for (const call of CALLS) {
            old.instead[call] = error500("one");
            now.instead[call] = { status: 404, body: { error: "two" } };
          }
        },
      ],
      ["another plan", (old) => (old.contract.subscriptionPlans.tasker = "FREE")],
      [
        "a service that is still listed",
        (old, now) => {
          old.contract.contractedServices["tasker"] = "2.0.0";
          delete now.contract.contractedServices["tasker"];
        },
      ],
    ];
    for (const [what, change] of unlike) {
      const [old, now] = [server(), server()];
      change(old.parts, now.parts);
      const { run, result } = await compare(old.answers(), now.answers());
      expect([what, run.code, result?.explained]).toEqual([what, 1, {}]);
    }
  });
});

describe("items of the report", () => {
  type Item = { code: string; kind: string; id?: string; name?: string; detail?: string };
  const about = (item: Item) => [{ id: "c1", name: "u1", detail: "", ...item }];
  const level = (code: string) => about({ code, kind: "level", name: "maxTasks of tasker for u1" });
  const used = (parts: ReturnType<typeof server>["parts"], consumed: number) => {
    parts.contract.usageLevels = { tasker: { maxTasks: { consumed, resetTimeStamp: "2025-07-01T00:00:00.000Z" } } };
  };
  const withoutService: Change = (_, now) => {
    now.contract.contractedServices = {};
    now.contract.usageLevels = {};
    now.contract.subscriptionPlans = {} as { tasker: string };
    now.features = {};
  };
  const lost = (detail: string) => about({ code: "contracted-version-missing", kind: "contract", detail });
  const withoutVersion: Change = (old) => {
    old.services[0] = { ...old.services[0], activePricings: { "2.0.0": { id: "p2" }, "3.0.0": { id: "p3" } } };
    old.instead["GET /services/Tasker/pricings?pricingStatus=active"] = ok([PRICING, { ...PRICING, version: "3_0_0" }]);
  };
  const version = (name: string, code = "version-missing") => about({ code, kind: "version", id: "s1", name });

  it.each<[string, readonly object[], Change]>([
    ["a level that is invalid", level("level-invalid"), (old) => used(old, -1)],
    [
      "a level that SPACE lacks",
      level("level-created"),
      (old) => delete old.contract.usageLevels["tasker"]?.["maxTasks"],
    ],
    [
      "the results that read an invalid level",
      level("level-invalid"),
      (old) => {
        old.claims["subscriptionContext"] = { "tasker-maxTasks": -1 };
        old.details["tasker-board"] = { ...detail(), used: { "tasker-maxTasks": -1 } };
      },
    ],
    [
      "a level without a limit",
      about({ code: "level-untracked", kind: "level", name: "tasker old for u1" }),
      (old) => Object.assign(old.contract.usageLevels["tasker"] ?? {}, { old: { consumed: 1 } }),
    ],
    [
      "a billing period that was repaired",
      about({ code: "billing-repaired", kind: "contract", detail: "renewalDays 0 becomes 30" }),
      (old) => Object.assign(old.contract.billingPeriod, { renewalDays: 0, endDate: "2025-06-20T00:00:00.000Z" }),
    ],
    ["a service whose version is missing", lost("tasker has no version 2.0.0"), withoutService],
    [
      "an add-on that is unknown",
      about({ code: "add-on-unknown", kind: "contract", detail: "tasker has no add-on extra" }),
      (old) => {
        old.contract.subscriptionAddOns["tasker"] = { extra: 1 };
        old.features["tasker-board"] = false;
      },
    ],
    ["a version that is missing", version("Tasker 3.0.0"), withoutVersion],
    [
      "a service that is left",
      about({ code: "service-empty", kind: "service", name: "Gone" }),
      (old) => old.services.push({ id: "s2", name: "Gone" }),
    ],
    [
      "an unknown field",
      about({ code: "field-unknown", kind: "field", id: "", name: "contracts.notes" }),
      (old) => Object.assign(old.contract, { notes: "x" }),
    ],
  ])("explain %s", async (_, items, change) => {
    const [old, now] = [server(), server()];
    change(old.parts, now.parts);
    const { run, result } = await compareReported(items, old.answers(), now.answers());
    expect(result?.unexplained).toEqual([]);
    expect(Object.keys(result?.explained ?? {})).toEqual(["reported"]);
    expect(run.code).toBe(0);
  });

  it.each<[string, readonly object[], Change]>([
    [
      "another plan of a contract with an invalid level",
      level("level-invalid"),
      (old) => (old.contract.subscriptionPlans.tasker = "FREE"),
    ],
    [
      "the reset of a level whose consumption was invalid",
      level("level-invalid"),
      (old) =>
        (old.contract.usageLevels = {
          tasker: { maxTasks: { consumed: 5, resetTimeStamp: "2025-08-01T00:00:00.000Z" } },
        }),
    ],
    ["the consumption of a level without a reset", level("reset-set"), (old) => used(old, 7)],
    [
      "a level of another limit",
      about({ code: "level-invalid", kind: "level", name: "maxTask of tasker for u1" }),
      (old) => used(old, -1),
    ],
    [
      "a level of another contract",
      level("level-invalid").map((item) => ({ ...item, id: "c2" })),
      (old) => used(old, -1),
    ],
    [
      "the start of a billing period whose length was repaired",
      about({ code: "billing-repaired", kind: "contract", detail: "renewalDays 0 becomes 30" }),
      (old) => (old.contract.billingPeriod.startDate = "2025-05-02T08:00:00.000Z"),
    ],
    ["a service when another one is missing", lost("task has no version 2.0.0"), withoutService],
    ["a version when another one is missing", version("Tasker 3.0.0.1"), withoutVersion],
    [
      "a field of a version whose text was written",
      version("Tasker 2.0.0", "text-written"),
      (old) => (old.pricing["currency"] = "USD"),
    ],
    [
      "another field",
      about({ code: "field-unknown", kind: "field", id: "", name: "contracts.notes" }),
      (old) => Object.assign(old.contract, { note: "x" }),
    ],
  ])("do not explain %s", async (_, items, change) => {
    const [old, now] = [server(), server()];
    change(old.parts, now.parts);
    const { run, result } = await compareReported(items, old.answers(), now.answers());
    expect(result?.explained).toEqual({});
    expect(run.code).toBe(1);
  });
});

it("finds equal servers equal, with four calls at a time and nothing written", async () => {
  const { run, asked, most, result } = await compare(server().answers(), server().answers());
  expect([run.code, result?.explained, result?.unexplained]).toEqual([0, {}, []]);
  expect(most).toBeLessThanOrEqual(4);
  expect(asked.filter((line) => line.startsWith("old")).sort()).toEqual(
    Object.keys(server().answers())
      .filter((line) => !line.startsWith("GET /contracts?"))
      .map((line) => `old ${line}`)
      .sort(),
  );
});

it("reads all pages of services and contracts, however short the server makes them", async () => {
  const [old, now] = [server(), server()];
  const more = { id: "s2", name: "More", disabled: false };
  old.parts.services.push({ ...more, disabled: true });
  const second = { ...contract(), id: "c2", userContact: { userId: "u2" } };
  now.parts.instead = {
    "GET /services?limit=1000&offset=1": ok([more]),
    "GET /services?limit=1000&offset=2": ok([]),
    [`GET /contracts?limit=100&after=${contract().id}`]: ok([second]),
  };
  const { asked, result } = await compare(old.answers(), now.answers());
  expect(result?.unexplained).toMatchObject([{ call: "services", path: "More.disabled", old: true, new: false }]);
  expect(asked).toContain("new GET /contracts/u2");
});

it("prints what is unexplained with user, call, path and both values", async () => {
  const [old, now] = [server(), server()];
  old.parts.contract.usageLevels = {
    tasker: { maxTasks: { consumed: 6, resetTimeStamp: "2025-07-01T00:00:00.000Z" } },
  };
  const fetching = await compare(old.answers(), now.answers());
  expect(fetching.result?.unexplained).toMatchObject([
    { user: "u1", call: "contract", path: "usageLevels.tasker.maxTasks.consumed", old: 6, new: 5, explanation: null },
  ]);
});

it("compares a token that cannot be read as it is", async () => {
  const [old, now] = [server(), server()];
  const unreadable = ok({ pricingToken: "no token" });
  const answers = { ...old.answers(), "POST /features/u1/pricing-token": unreadable };
  const { result } = await compare(answers, now.answers());
  expect(result?.unexplained).toMatchObject(
    expect.arrayContaining([expect.objectContaining({ call: "token", path: "pricingToken", old: "no token" })]),
  );
});

it("exits with 2 when nothing was compared", async () => {
  const answers = server().answers();
  const refused = {
    ...answers,
    "GET /contracts?limit=100&after=": { status: 403, body: { error: "Not for EVALUATION" } },
  };
  expect((await compare(answers, refused)).run).toMatchObject({
    code: 2,
    err: `faregate: ${NEW} does not list contracts: Not for EVALUATION\n`,
  });
  const unknown = {
    ...answers,
    "GET /services?limit=1000&offset=0": { status: 401, body: { error: "Invalid API Key" } },
  };
  expect((await compare(unknown, answers)).run).toMatchObject({
    code: 2,
    err: `faregate: ${OLD} refuses the key: Invalid API Key\n`,
  });
  const args = ["compare", "--old", OLD, "--new", NEW];
  for (const none of [[], ["--key", ""]]) {
    expect(await runFaregate([...args, ...none])).toMatchObject({
      code: 2,
      err: "faregate: A key is needed: --key or FAREGATE_API_KEY.\n",
    });
  }
  expect((await runFaregate([...args, "--key", "k"])).err).toContain("cannot be reached");
  expect((await runFaregate([...args, "--key", "k", "--sample", "-1"])).code).toBe(2);
  expect((await runFaregate([...args, "--key", "k", "--report", "none.json"])).err).toBe(
    "faregate: none.json does not exist.\n",
  );
});

describe("a server that does not answer for a moment", () => {
  const user = `${NEW}/api/v1/features/u1`;
  /** Compares equal servers, of which the new one answers the first `times` calls of an evaluation in this way. */
  async function interrupted(times: number, failing: () => Response) {
    const answers = server().answers();
    let left = times;
    const fetching = async (input: string | URL | Request, init?: RequestInit) => {
      if (String(input) === user && left > 0) {
        left -= 1;
        return failing();
      }
      const line = `${init?.method ?? "GET"} ${String(input).replace(/^.*\/api\/v1/, "")}`;
      const { status, body } = answers[line] ?? ok([]);
      return new Response(JSON.stringify(body), { status });
    };
    const args = ["compare", "--old", OLD, "--new", NEW, "--key", "k"];
    return runFaregate(args, {}, { fetch: fetching, now: () => new Date(NOW) });
  }
  const busy = (status: number) => () => new Response("busy", { status, headers: { "retry-after": "0" } });
  const unreachable = () => {
    throw new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNRESET" }) });
  };

  it.each([
    ["429", busy(429)],
    ["502", busy(502)],
    ["503", busy(503)],
    ["504", busy(504)],
    ["a lost connection", unreachable],
  ])("is asked again after %s, which is no difference", async (_, failing) => {
    expect(await interrupted(1, failing)).toMatchObject({ code: 0, err: "" });
  });

  it("ends the comparison if it stays so, and is no difference either", async () => {
    expect(await interrupted(Infinity, busy(503))).toMatchObject({
      code: 2,
      out: "",
      err: `faregate: ${NEW} keeps answering 503 to POST /features/u1. Compare again later.\n`,
    });
  });
});

it("accepts the base of the HTTP interface as an address, as the other commands do", async () => {
  const urls: string[] = [];
  const answer = async (input: string | URL | Request) => {
    urls.push(String(input));
    return new Response("[]");
  };
  const args = ["compare", "--old", `${OLD}/api/v1`, "--new", `${NEW}/api/v1/`, "--key", "k"];
  expect((await runFaregate(args, {}, { fetch: answer })).code).toBe(0);
  expect(urls).toContain(`${OLD}/api/v1/services?limit=1000&offset=0`);
  expect(urls).toContain(`${NEW}/api/v1/contracts?limit=100&after=`);
});

it("says why a server cannot be reached, and what an address looks like", async () => {
  const refused = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:9"), { code: "ECONNREFUSED" });
  const fetching = () => Promise.reject(new TypeError("fetch failed", { cause: refused }));
  const args = ["--new", NEW, "--key", "k"];
  const machine = { fetch: fetching };
  expect(await runFaregate(["compare", "--old", OLD, ...args], {}, machine)).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^faregate: https:\/\/\S+ cannot be reached: ECONNREFUSED\n$/),
  });
  expect(await runFaregate(["compare", "--old", "space.example:5403", ...args], {}, machine)).toMatchObject({
    code: 2,
    err: "faregate: space.example:5403 is no address of a server: it must begin with http:// or https://\n",
  });
});
