import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { BSON } from "bson";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { pricingToWire } from "../../src/core/pricing/wire.ts";

/*
 * Writes dumps as SPACE's database has them. Source: contract files-and-migration §4.
 */

export type Document = Record<string, unknown>;

/** Documents by collection. Large collections may be generators. */
export type Installation = Partial<Record<string, Iterable<Document>>>;

export type DumpFormat = "bson" | "bson.gz" | "json" | "json.gz" | "jsonArray" | "canonical";

/** Derives an object id from a name. The first 8 digits are its time: 2024-01-01 and `second` seconds. */
export function objectId(name: string, second = 0): BSON.ObjectId {
  const time = Math.floor(Date.UTC(2024, 0, 1) / 1000) + second;
  return new BSON.ObjectId(time.toString(16) + createHash("sha256").update(name).digest("hex").slice(0, 16));
}

/** A key in the form of SPACE's: the same for the same name. */
export const spaceKey = (prefix: "usr" | "org", name: string): string =>
  `${prefix}_${createHash("sha256").update(name).digest("hex")}`;

/** Builds what SPACE stores of an uploaded text: the maps of the answer, with prices computed. */
export function storedPricing(text: string, given: { id: BSON.ObjectId; service: string; organizationId: string }) {
  const read = parsePricing(text, new Date("2030-01-01T00:00:00.000Z"));
  if (!read.ok) throw new Error(`not a pricing: ${JSON.stringify(read.problems)}`);
  const { id, service, organizationId } = given;
  const version = read.pricing.version.replaceAll(".", "_");
  const wire = pricingToWire(read.pricing, { organizationId, version });
  const { currency, features, usageLimits, plans, addOns } = wire;
  const path = `/static/pricings/${organizationId}-${service.toLowerCase()}-${read.pricing.version}.yaml`;
  return {
    _id: id,
    _serviceName: service,
    _organizationId: organizationId,
    version,
    yamlPath: path,
    currency,
    createdAt: new Date(read.pricing.createdAt),
    features,
    usageLimits,
    plans,
    addOns: withInfinity(addOns),
    __v: 0,
  };
}

/** Unlimited quantities are infinite in SPACE, and null in answers. */
function withInfinity(addOns: unknown): unknown {
  return JSON.parse(JSON.stringify(addOns), (key, value: unknown) =>
    key === "maxQuantity" && value === null ? Infinity : value,
  );
}

/** Writes a dump to a new folder. */
export async function writeDump(installation: Installation, format: DumpFormat = "bson") {
  const folder = await mkdtemp(join(tmpdir(), "faregate-space-"));
  for (const [collection, documents] of Object.entries(installation)) {
    if (documents !== undefined) await writeCollection(folder, collection, documents, format);
  }
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

async function writeCollection(folder: string, name: string, documents: Iterable<Document>, format: DumpFormat) {
  const ending = format === "jsonArray" || format === "canonical" ? "json" : format;
  const file = createWriteStream(join(folder, `${name}.${ending}`));
  const out = ending.endsWith(".gz") ? createGzip() : file;
  if (out !== file) out.pipe(file);
  const write = async (chunk: string | Uint8Array) => {
    if (!out.write(chunk)) await new Promise<void>((done) => out.once("drain", () => done()));
  };
  let isFirst = true;
  if (format === "jsonArray") await write("[");
  for (const document of documents) {
    if (ending.startsWith("bson")) await write(BSON.serialize(document));
    else {
      const text = BSON.EJSON.stringify(document, { relaxed: format !== "canonical" });
      await write(format === "jsonArray" ? `${isFirst ? "" : ",\n"}${text}` : `${text}\n`);
    }
    isFirst = false;
  }
  if (format === "jsonArray") await write("]\n");
  out.end();
  await finished(file);
}

export const ORGANIZATION = objectId("Tasker Inc.");
export const organizationId = ORGANIZATION.toHexString();

/** bcrypt hashes of `<username>-password`: that of ada with cost 10, as SPACE writes them, and a cheap one of bob. */
const HASHES = {
  ada: "$2b$10$UF7m43u2SDDmw5KTANJcHuzz4SYdW739aMGQ44N1MWJa4SdmXKPeu",
  bob: "$2b$04$HQY7MwqfuSZURsWkLJwEe.2E1MmqU2kvXCIXXQr9alAxcFrXTD1se",
};

const header = (version: string, rest: string) => `saasName: Tasker
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2024-02-01"
currency: EUR
tags: [Core]
${rest}`;

/** Texts of the versions of the service Tasker, in the order of upload. */
export const TASKER = {
  "1.0.0": header(
    "1.0.0",
    `features:
  board:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    tag: Core
    expression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks']
usageLimits:
  maxTasks: {valueType: NUMERIC, defaultValue: 5, unit: task, type: NON_RENEWABLE, trackable: true, linkedFeatures: [board]}
plans:
  FREE: {price: 0, features: null}
`,
  ),
  "2.0.0": header(
    "2.0.0",
    `variables: {base: 4}
features:
  board:
    description: "Boards: \\"all\\" of them"
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    tag: Core
    expression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks']
  pay: {valueType: TEXT, type: PAYMENT, defaultValue: [CARD]}
  sla: {valueType: TEXT, defaultValue: none, value: best effort, type: GUARANTEE, docUrl: "https://docs.example/sla"}
usageLimits:
  maxTasks: {valueType: NUMERIC, defaultValue: 10, unit: task, type: NON_RENEWABLE, trackable: true, linkedFeatures: [board]}
  calls: {valueType: NUMERIC, defaultValue: .inf, unit: call, type: RENEWABLE, period: {value: 1, unit: MONTH}}
  seats: {valueType: NUMERIC, defaultValue: 1, unit: seat, type: NON_RENEWABLE}
plans:
  FREE: {price: 0, features: null}
  PRO: {price: "#base * 2.5", features: {pay: {value: [CARD, INVOICE]}}, usageLimits: {maxTasks: {value: 1000}}}
  ENTERPRISE: {price: Contact Sales, private: true, features: {sla: {value: "24/7"}}}
addOns:
  extraTasks: {price: 2, availableFor: [PRO], usageLimitsExtensions: {maxTasks: {value: 100}}, subscriptionConstraints: {minQuantity: 1, maxQuantity: .inf, quantityStep: 1}}
  support: {price: 9, features: {sla: {value: "8/5"}}, excludes: [extraTasks]}
`,
  ),
} as const;

const PERIOD = {
  startDate: new Date("2024-05-01T08:00:00.000Z"),
  endDate: new Date("2024-05-31T08:00:00.000Z"),
  autoRenew: true,
  renewalDays: 30,
};

/** A contract of Tasker 2.0.0 with two levels and one history entry. */
export function spaceContract(userId: string, changes: Document = {}): Document {
  return {
    _id: objectId(`contract ${userId}`),
    userContact: { userId, username: `${userId}'s name`, email: `${userId}@example.com` },
    billingPeriod: { ...PERIOD },
    organizationId,
    contractedServices: { tasker: "2_0_0" },
    subscriptionPlans: { tasker: "pro" },
    subscriptionAddOns: { tasker: { extratasks: 2 } },
    usageLevels: {
      tasker: {
        maxTasks: { consumed: 650 },
        calls: { consumed: 12.5, resetTimeStamp: new Date("2024-06-30T08:00:00.000Z") },
      },
    },
    history: [
      {
        _id: objectId(`history ${userId}`),
        startDate: new Date("2024-03-01T08:00:00.000Z"),
        endDate: PERIOD.startDate,
        contractedServices: { tasker: "1_0_0" },
        subscriptionPlans: { tasker: "FREE" },
        subscriptionAddOns: {},
      },
    ],
    __v: 3,
    ...changes,
  };
}

const IDS = { "1.0.0": objectId("Tasker 1.0.0", 10), "2.0.0": objectId("Tasker 2.0.0", 20) };

/** Documents of a small installation. Nothing of it has to be left behind. */
export function smallInstallation() {
  const stored = (version: keyof typeof TASKER) =>
    storedPricing(TASKER[version], { id: IDS[version], service: "Tasker", organizationId });
  return {
    users: [
      {
        _id: objectId("ada"),
        username: "ada",
        password: HASHES.ada,
        apiKey: spaceKey("usr", "ada"),
        role: "ADMIN",
        createdAt: new Date("2024-01-02T03:04:05.678Z"),
        updatedAt: new Date("2024-01-03T03:04:05.678Z"),
        __v: 0,
      },
      { _id: objectId("bob"), username: "bob", password: HASHES.bob, role: "USER", __v: 0 },
    ] as Document[],
    organizations: [
      {
        _id: ORGANIZATION,
        name: "Tasker Inc.",
        owner: "ada",
        default: true,
        apiKeys: [
          { key: spaceKey("org", "all"), scope: "ALL" },
          { key: spaceKey("org", "management"), scope: "MANAGEMENT" },
          { key: spaceKey("org", "evaluation"), scope: "EVALUATION" },
        ],
        members: [{ username: "bob", role: "MANAGER" }],
        __v: 0,
      },
    ] as Document[],
    services: [
      {
        _id: objectId("Tasker"),
        name: "Tasker",
        organizationId,
        disabled: false,
        activePricings: { "2_0_0": { _id: objectId("locator"), id: IDS["2.0.0"] } },
        archivedPricings: { "1_0_0": { id: IDS["1.0.0"] } },
        __v: 0,
      },
    ] as Document[],
    pricings: [stored("1.0.0"), stored("2.0.0")] as Document[],
    contracts: [spaceContract("u1"), spaceContract("u2", { groupId: "g" })] as Document[],
    analyticsdays: [{ _id: objectId("day"), date: "2024-05-01", apiCalls: 120, evaluations: 45, __v: 0 }] as Document[],
  };
}

/** The small installation with this many contracts, of which each is made when it is written. */
export function largeInstallation(count: number): Installation {
  return {
    ...smallInstallation(),
    contracts: {
      *[Symbol.iterator]() {
        for (let index = 0; index < count; index += 1) yield spaceContract(`user-${index}`);
      },
    },
  };
}

/** Converts a document as a reader of dumps does: ids become texts. */
export function plainDocument(value: unknown): unknown {
  if (value instanceof BSON.ObjectId) return value.toHexString();
  if (Array.isArray(value)) return value.map(plainDocument);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plainDocument(each)]));
}
