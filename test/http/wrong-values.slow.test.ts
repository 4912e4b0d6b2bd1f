import { afterAll, beforeAll, expect, test } from "vitest";
import { EXAMPLE, PATH_PARAMETERS } from "../../src/wire/common.ts";
import type { DocumentedBody, Operation } from "../../src/wire/operation.ts";
import { OPERATIONS } from "../../src/wire/operations.ts";
import { PRICING_EXAMPLE } from "../../src/wire/pricing-example.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { yamlUpload } from "../support/uploads.ts";
import { jsonOf, LIBRARY_SENTENCE, placesOf, replaced, WRONG_VALUES } from "../support/wrong-values.ts";

/*
 * Every field and parameter of every operation with values that are wrong in a known way. Each refusal must be one of
 * ours: never 5xx, never the validation library's own words, and with the name of the field.
 */

/** Of the right shape, and refused: a change that is carried out would not look at the next body. */
const TARGETS = {
  subscriptionPlan: "NONE",
  subscriptionAddOns: { extraTasks: 1 },
  groups: [
    { pricingVersion: "1.0.0", configuration: { plan: "PRO", addOns: {} }, target: { plan: "NONE", addOns: {} } },
  ],
  renames: { PRO: "FREE" },
};
/** Fields that the examples of the reference leave out. */
const MORE: Readonly<Record<string, object>> = {
  createContract: {
    userContact: { userId: "bob", username: "bob", firstName: "B", lastName: "B", email: "b@example.com", phone: "1" },
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
    trial: {
      days: 14,
      then: { subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: { tasker: { extraTasks: 0 } } },
      remindDays: 3,
      again: false,
    },
  },
  changeAvailability: TARGETS,
  predictImpact: { ...TARGETS, from: ["1.0.0"] },
  novateContracts: { ...TARGETS, from: ["1.0.0"] },
  takeSnapshot: { users: [{ userId: "ada", version: "1" }], knownPricings: ["1"], knownGrants: ["1"] },
  createWebhook: { codes: ["PRICING_CREATED"] },
};
/** Sentences that the contract pins, or that go beyond one field. They name none. */
const NAMELESS: readonly RegExp[] = [
  /All values must be (numbers|non-negative finite numbers|at most 9007199254740991)$/,
  /^The input must be an object with the structure: Record<string, Record<string, number>>$/,
  /^Plan name (must be a string|cannot be empty)$/,
  /^Each add-on quantity must be an integer greater than or equal to 0$/,
  /^Invalid pricing status$/,
  // `member` is another name of `spender`.
  /^spender must be a path of 1 to 4 ids$/,
];
/** Operations whose answer does not end. */
const isStream = ({ mediaType }: Operation) => mediaType === "text/event-stream";
/** Nested paths share schema and handler with those at top level. */
const operations = OPERATIONS.filter((each) => !each.id.endsWith("InOrganization") && !isStream(each));

interface World {
  keyOf(operation: Operation): string;
  pathOf(operation: Operation, overrides?: Record<string, string>): string;
}

let api: TestApi;
let worlds = 0;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

/** Creates an organization in which the examples of the reference have something to act on. */
async function createWorld(): Promise<World> {
  worlds += 1;
  const [owner, member] = [await api.newUser(`owner-${worlds}`), await api.newUser(`member-${worlds}`)];
  const { id: organizationId, key } = await api.newOrganization(owner);
  const call = async (path: string, body: unknown, as = key): Promise<Record<string, { id: string }>> => {
    const answer = await api.call<Record<string, { id: string }>>("POST", path, { key: as, body });
    if (answer.status !== 201 && answer.status !== 200) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const inside = `/organizations/${organizationId}`;
  await call(`${inside}/members`, { username: member.username, role: "MANAGER" }, owner.key);
  await call("/services", yamlUpload(PRICING_EXAMPLE));
  await call("/services/Tasker/pricings", yamlUpload(PRICING_EXAMPLE.replace("1.0.0", "2.0.0")));
  await call("/contracts", {
    userContact: { userId: "ada", username: "ada" },
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: {},
  });
  const { hold } = await call("/features/ada/tasker-board?hold=PT10M", { "tasker-maxTasks": 1 });
  const { lease } = await call("/features/ada/tasker-board/leases", {
    for: "PT30S",
    amounts: { "tasker-maxTasks": 1 },
  });
  const webhook = await call("/webhooks", { url: "https://example.com/hook" });
  const values: Record<string, string> = {
    organizationId,
    username: member.username,
    holdId: hold?.id ?? "",
    leaseId: lease?.id ?? "",
    webhookId: String(webhook["id"]),
  };
  return {
    keyOf: ({ path }) => {
      if (path.startsWith("/organizations/{")) return owner.key;
      return /^\/(users|organizations|cache|events)\b/.test(path) ? api.callers.platformAdmin.key : key;
    },
    pathOf: ({ base, path }, overrides = {}) =>
      (base === "/" ? "" : "/api/v1") +
      path.replace(
        /\{(\w+)\}/g,
        (_, name: string) =>
          overrides[name] ?? encodeURIComponent(values[name] ?? PATH_PARAMETERS[name]?.example ?? EXAMPLE.serviceId),
      ),
  };
}

let world: World | undefined;
/** Set by a write that succeeds: the next operation acts in another world. */
let isChanged = false;
async function worldOf(): Promise<World> {
  if (isChanged) world = undefined;
  isChanged = false;
  return (world ??= await createWorld());
}

/** Sends a call, and looks for words that are not ours. */
async function send(operation: Operation, key: string, path: string, body: unknown) {
  const answer = await api.call<Record<string, unknown> | undefined>(operation.method, path, {
    key,
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : jsonOf(body) }),
  });
  const sentence = String(answer.body?.["error"] ?? answer.body?.["errorDetails"]);
  const what = `${operation.method} ${path} ${body === undefined ? "" : jsonOf(body).slice(0, 300)}: ${sentence}`;
  if (answer.status < 300 && operation.method !== "GET") isChanged = true;
  expect(answer.status, what).toBeLessThan(500);
  if (answer.status >= 400) expect(sentence, what).not.toMatch(LIBRARY_SENTENCE);
  return { status: answer.status, sentence, what };
}

/** A refusal of one value names the field of this value. */
function expectNamed({ status, sentence, what }: Awaited<ReturnType<typeof send>>, field: string): void {
  if (status !== 400 && status !== 422) return;
  if (NAMELESS.some((pinned) => pinned.test(sentence))) return;
  expect(sentence.toLowerCase(), what).toContain(field.toLowerCase());
}

const withBody = operations.filter(
  (operation): operation is Operation & { body: DocumentedBody } => typeof operation.body === "object",
);
test.each(withBody.map((operation) => [operation.id, operation] as const))(
  "%s refuses each wrong value of its body with a sentence of ours that names the field",
  async (id, operation) => {
    const { schema, example } = operation.body;
    const body = Array.isArray(example) ? example : { ...(example as object), ...MORE[id] };
    expect(schema.safeParse(body)).toMatchObject({ success: true });
    const places = new Map([...placesOf(schema, body)].map((place) => [place.path.join("."), place]));
    const { pathOf, keyOf } = await worldOf();
    for (const { path, field } of places.values()) {
      for (const [kind, value] of WRONG_VALUES) {
        const wrong = replaced(body, path, value);
        const answer = await send(operation, keyOf(operation), pathOf(operation), wrong);
        if (schema.safeParse(JSON.parse(jsonOf(wrong))).success) continue;
        expect(answer.status, `${kind}: ${answer.what}`).toBeGreaterThanOrEqual(400);
        if (field !== undefined) expectNamed(answer, field);
      }
    }
  },
);

const WRONG_PARAMETERS = ["", "never", "-1", "1.5", "1e308", "9".repeat(400), "%00", "x".repeat(8000)];
/** Parameters that other calls of the same operation need. */
const NEEDED: Readonly<Record<string, string>> = {
  novateGroup: "groupId=team-7",
  compareVersions: "from=1.0.0&to=2.0.0",
};

test.each(
  operations
    .filter(({ query, path }) => query !== undefined || path.includes("{"))
    .map((each) => [each.id, each] as const),
)("%s refuses each wrong parameter with a sentence of ours that names it", async (id, operation) => {
  const { pathOf, keyOf } = await worldOf();
  const key = keyOf(operation);
  const body = typeof operation.body === "object" ? operation.body.example : undefined;
  for (const name of Object.keys(operation.query?.shape ?? {})) {
    const others = (NEEDED[id] ?? "").split("&").filter((pair) => !pair.startsWith(`${name}=`));
    const start = `${pathOf(operation)}?${others.map((pair) => `${pair}&`).join("")}`;
    const without = await send(operation, key, start, body);
    for (const value of WRONG_PARAMETERS) {
      const answer = await send(operation, key, `${start}${name}=${value}`, body);
      if (answer.sentence !== without.sentence) expectNamed(answer, name);
    }
  }
  for (const [, name = ""] of operation.path.matchAll(/\{(\w+)\}/g)) {
    for (const value of ["never", "1e308", "%00", "%ED%A0%80", "x".repeat(8000)]) {
      await send(operation, key, pathOf(operation, { [name]: value }), body);
    }
  }
});
