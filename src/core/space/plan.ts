import { AccountPlanner, type DeriveId, type PlannedOrganization, type PlannedUser } from "./accounts.ts";
import { CatalogPlanner, locatorsOf, type PlannedService } from "./catalog.ts";
import { ContractPlanner } from "./contracts.ts";
import type { PlannedContract } from "./planned-contract.ts";
import { type Collection, dateOf, type SpaceDocument, textOf } from "./documents.ts";
import type { Findings } from "./report.ts";
import { isLocal, type Texts } from "./version-text.ts";

/** Reads a collection of a dump; nothing if the dump lacks it. May be called repeatedly. */
export type ReadCollection = (collection: Collection) => AsyncIterable<SpaceDocument>;

export interface PlannedDay {
  day: string;
  apiCalls: number;
  evaluations: number;
}

/** Rows that one transaction writes. The same dump gives the same batches in each run. */
export type SpaceBatch =
  | { kind: "users"; rows: PlannedUser[]; hasAdmin: boolean }
  | { kind: "organizations"; rows: PlannedOrganization[] }
  | { kind: "services"; rows: PlannedService[] }
  | { kind: "contracts"; rows: PlannedContract[] }
  | { kind: "days"; rows: PlannedDay[] };

const ORGANIZATIONS_PER_BATCH = 1000;
/** Services have texts of tens of kilobytes per version. */
const SERVICES_PER_BATCH = 50;
const CONTRACTS_PER_BATCH = 1000;

/** Files and addresses outside of the database that the plan reads. */
export async function externalTexts(read: ReadCollection): Promise<{ files: Set<string>; urls: Set<string> }> {
  const files = new Set<string>();
  const urls = new Set<string>();
  for await (const document of read("pricings")) {
    const path = textOf(document["yamlPath"]);
    if (path !== undefined) files.add(path);
  }
  for await (const document of read("services")) {
    for (const { url } of locatorsOf(document)) {
      if (url !== undefined) (isLocal(url) ? files : urls).add(url);
    }
  }
  return { files, urls };
}

/**
 * Decides what is carried, changed and left, in the order in which it is written. `findings` is complete once the last
 * batch is taken. Source: contract files-and-migration §5.
 */
export async function* planSpace(
  read: ReadCollection,
  given: { findings: Findings; deriveId: DeriveId; texts: Texts; now: Date },
): AsyncGenerator<SpaceBatch> {
  const { findings, deriveId, texts, now } = given;
  const accounts = new AccountPlanner(findings, deriveId);
  const users: PlannedUser[] = [];
  for await (const user of planned(read("users"), (document) => accounts.planUser(document))) users.push(user);
  // One transaction: the ADMIN of the target may only go together with the arrival of others.
  yield { kind: "users", rows: users, hasAdmin: accounts.hasAdmin };
  const organizations = planned(read("organizations"), (document) => accounts.planOrganization(document));
  for await (const rows of inBatches(organizations, ORGANIZATIONS_PER_BATCH)) yield { kind: "organizations", rows };

  const catalog = new CatalogPlanner({ findings, deriveId, texts, now, organizations: accounts.organizations });
  for await (const document of read("pricings")) catalog.addPricing(document);
  const services = planned(read("services"), (document) => catalog.planService(document));
  for await (const rows of inBatches(services, SERVICES_PER_BATCH)) yield { kind: "services", rows };
  catalog.nameUnreferenced();

  const contracts = new ContractPlanner({ findings, catalog, organizations: accounts.organizations, now });
  const plannedContracts = planned(read("contracts"), (document) => contracts.plan(document));
  for await (const rows of inBatches(plannedContracts, CONTRACTS_PER_BATCH)) yield { kind: "contracts", rows };

  const days = new Map<string, PlannedDay>();
  for await (const day of planned(read("analyticsdays"), (document) => planDay(document, findings, days))) {
    days.set(day.day, day);
  }
  if (days.size > 0) yield { kind: "days", rows: [...days.values()] };
}

async function* planned<Row>(
  documents: AsyncIterable<SpaceDocument>,
  plan: (document: SpaceDocument) => Row | undefined,
): AsyncGenerator<Row> {
  for await (const document of documents) {
    const row = plan(document);
    if (row !== undefined) yield row;
  }
}

async function* inBatches<Row>(rows: AsyncIterable<Row>, size: number): AsyncGenerator<Row[]> {
  let batch: Row[] = [];
  for await (const row of rows) {
    batch.push(row);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

function planDay(
  document: SpaceDocument,
  findings: Findings,
  others: ReadonlyMap<string, unknown>,
): PlannedDay | undefined {
  const { date, apiCalls = 0, evaluations = 0 } = document;
  const day = typeof date === "string" && /^\d{4}-\d\d-\d\d$/.test(date) ? date : undefined;
  const id = findings.open("analyticsdays", "day", document, day ?? "");
  if (id === undefined) return undefined;
  const isDay = day !== undefined && dateOf(day)?.toJSON().startsWith(day) === true;
  if (!isDay || !isCount(apiCalls) || !isCount(evaluations) || others.has(day)) {
    const subject = { kind: "day", id, name: day ?? "" } as const;
    const isTaken = day !== undefined && others.has(day);
    findings.leave("document-invalid", subject, isTaken ? "The day is there already" : "No day, or no whole counts");
    return undefined;
  }
  findings.carried.days += 1;
  return { day, apiCalls, evaluations };
}
