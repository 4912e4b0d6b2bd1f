import { and, eq } from "drizzle-orm";
import { hasKept } from "../../core/pricing/blocks.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import type { Spender } from "../../core/pricing/budgets.ts";
import { evaluatedPricing, grantedRecord } from "../../core/pricing/evaluated.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import type { Grant } from "../../core/pricing/subscription.ts";
import { SNAPSHOT_FORMAT, type SnapshotEntryService } from "../../core/snapshot.ts";
import { knownMemberKeys, memberKey, type MemberName } from "../../db/queries/contract-members.ts";
import { type ContractSnapshot, loadSnapshots } from "../../db/queries/contract-snapshots.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { contracts } from "../../db/schema.ts";
import type { Context } from "../context.ts";
import { contractNotFound, memberNotFound } from "../contract-address.ts";
import { applyDueChanges } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { compiledPricings } from "../subscriptions.ts";
import { isDue as isLevelDue } from "../../db/queries/usage-renewals.ts";
import { hasDueBlock } from "../due-blocks.ts";
import { blocksOf, evaluationOf } from "../evaluations.ts";
import { budgetsOf } from "./budget-book.ts";
import { evaluatedOrganization, renewBillingPeriod, withLockedHolder } from "./prepare.ts";
import { isChangeDue, isExpired, validUntilOf } from "./renewal.ts";

/** Maximum size of an answer. */
const MAX_BYTES = 4_000_000;
/** Users without a contract may get one at any time: contracts that are created are not announced. */
const ABSENT_FOR_MS = 1000;

/** Status and sentence of a failure. The HTTP interface knows the statuses. */
export type DescribeRefusal = (failure: Failure) => { status: number; error: string };

export interface SnapshotInput {
  users: readonly { userId: string; version?: string | null | undefined; spender?: Spender }[];
  knownPricings: readonly string[];
  knownGrants: readonly string[];
}

/** A part of an answer: its JSON text, addressed by the SHA-256 of this text. */
interface Part {
  hash: string;
  text: string;
}

/** One user's entry with the pricings and grants that it names. */
interface Described {
  text: string;
  /** Null for users without a contract. */
  version: string | null;
  pricings: readonly Part[];
  grants: readonly Part[];
}

/**
 * Describes what decides about end users, without their balances, as the JSON text of one answer. Reads contracts from
 * the database, so whoever received a change and requests it gets it. Applies due changes and renewals first. Source:
 * contract tokens-and-leases §4.
 */
export async function takeSnapshot(ctx: Context, input: SnapshotInput, refusalOf: DescribeRefusal): Promise<string> {
  // Postgres cannot store U+0000, so no contract has it.
  const userIds = [...new Set(input.users.map(({ userId }) => userId))].filter((userId) => !userId.includes("\0"));
  const found = await loadCurrent(ctx, userIds);
  await compiledPricings(
    ctx,
    [...found.values()].flatMap(({ services }) => services),
  );
  const now = ctx.resources.now();
  const answer = createAnswer(input, now);
  const strangers = await strangersOf(ctx, input, found);
  for (const [index, { userId, version, spender }] of input.users.entries()) {
    const contract = found.get(userId);
    const [memberId = ""] = spender ?? [];
    const isStranger = contract && strangers.has(memberKey({ contractId: contract.contractId, memberId }));
    const stranger = isStranger ? memberNotFound(memberId, userId) : undefined;
    const described = await describe(ctx, { userId, contract, now, refusalOf, stranger });
    answer.add(index, described, version);
  }
  return answer.text();
}

/** Finds who of an answer's spenders are no members of their contracts, with one query. Returns their keys. */
async function strangersOf(
  ctx: Context,
  { users }: SnapshotInput,
  found: ReadonlyMap<string, ContractSnapshot>,
): Promise<ReadonlySet<string>> {
  const asked = new Map<string, MemberName>();
  for (const { userId, spender } of users) {
    const [memberId] = spender ?? [];
    const contract = found.get(userId);
    if (memberId === undefined || contract === undefined || contract.memberCount === 0) continue;
    const name = { contractId: contract.contractId, memberId };
    asked.set(memberKey(name), name);
  }
  if (asked.size === 0) return new Set();
  const members = await knownMemberKeys(ctx.db, [...asked.values()]);
  return new Set([...asked.keys()].filter((key) => !members.has(key)));
}

/** Loads contracts, with changes and renewals applied that were due. */
async function loadCurrent(ctx: Context, userIds: readonly string[]): Promise<Map<string, ContractSnapshot>> {
  const organizationId = evaluatedOrganization(ctx);
  const load = (ids: readonly string[]) => loadSnapshots(ctx.db, organizationId, ids);
  const found = await load(userIds);
  for (;;) {
    const now = ctx.resources.now();
    const due = userIds.filter((userId) => isDue(found.get(userId), now));
    if (due.length === 0) return found;
    await applyDueChanges(ctx, and(eq(contracts.organizationId, organizationId), isAnyOf(contracts.userId, due)));
    for (const userId of due) await renew(ctx, { organizationId, userId });
    for (const userId of due)
      if (hasDueBlocks(found.get(userId), now)) await writeBlocks(ctx, { organizationId, userId });
    for (const userId of due) found.delete(userId);
    for (const [userId, contract] of await load(due)) found.set(userId, contract);
  }
}

function isDue(contract: ContractSnapshot | undefined, now: Date): boolean {
  if (contract === undefined) return false;
  return isChangeDue(contract, now) || (contract.autoRenew && isExpired(contract, now)) || hasDueBlocks(contract, now);
}

/** True if something is due that changes what blocks add: the end of one, or the end of a period of its level. */
function hasDueBlocks(contract: ContractSnapshot | undefined, now: Date): boolean {
  if (contract === undefined || contract.blocks.length === 0) return false;
  const { blocks, levels } = contract;
  return (
    hasDueBlock(blocks, now) ||
    levels.some((level) => {
      const those = blocksOf(blocks, level);
      return (isLevelDue(level, now) && those.length > 0) || (level.held === 0 && hasKept(those));
    })
  );
}

/** Writes what is due of a contract, whatever it has become, unless it was deleted meanwhile. */
async function writeBlocks(ctx: Context, name: { organizationId: string; userId: string }): Promise<void> {
  try {
    await withLockedHolder(ctx, name, async () => {});
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== "notFound") throw error;
  }
}

/** Renews a contract unless it was deleted, or expired for good, in the meantime. */
async function renew(ctx: Context, name: { organizationId: string; userId: string }): Promise<void> {
  try {
    await renewBillingPeriod(ctx, name);
  } catch (error) {
    if (!(error instanceof Failure) || (error.code !== "notFound" && error.code !== "invalid")) throw error;
  }
}

async function describe(
  ctx: Context,
  {
    userId,
    contract,
    now,
    refusalOf,
    stranger,
  }: {
    userId: string;
    contract: ContractSnapshot | undefined;
    now: Date;
    refusalOf: DescribeRefusal;
    stranger: Failure | undefined;
  },
): Promise<Described> {
  if (contract === undefined) {
    const facts = {
      validUntil: new Date(now.getTime() + ABSENT_FOR_MS).toISOString(),
      services: [],
      refusal: refusalOf(contractNotFound(userId)),
    };
    const text = JSON.stringify({ userId, contractId: null, version: null, ...facts });
    return { text, version: null, pricings: [], grants: [] };
  }
  const { contractId } = contract;
  const { evaluation, refusal = stranger } = await evaluationOrRefusal(ctx, contract, now);
  const parts = await Promise.all(
    (evaluation?.services ?? []).map(async ({ serviceName, pricing, grant }) => ({
      service: serviceName,
      pricing: await pricingPart(pricing),
      grant: await grantPart(grant),
    })),
  );
  const services = parts.map(({ service, pricing, grant }): SnapshotEntryService => ({
    service,
    pricing: pricing.hash,
    grant: grant.hash,
  }));
  const validUntil = validUntilOf(contract, now, evaluation)?.toISOString() ?? null;
  const budgets = budgetsOf(contract, evaluation);
  const facts = {
    validUntil,
    services,
    // A lease is bound to the budgets that it began with: its holder begins another when they change.
    ...(budgets.length === 0 ? {} : { budgets: await hashOf(JSON.stringify(budgets)) }),
    refusal: refusal === undefined ? null : refusalOf(refusal),
  };
  const version = await hashOf(JSON.stringify({ contractId, ...facts }));
  return {
    text: JSON.stringify({ userId, contractId, version, ...facts }),
    version,
    pricings: parts.map(({ pricing }) => pricing),
    grants: parts.map(({ grant }) => grant),
  };
}

async function evaluationOrRefusal(
  ctx: Context,
  contract: ContractSnapshot,
  now: Date,
): Promise<{ evaluation?: Evaluation; refusal?: Failure }> {
  try {
    isExpired(contract, now);
    return { evaluation: await evaluationOf(ctx, contract, now) };
  } catch (error) {
    if (error instanceof Failure) return { refusal: error };
    throw error;
  }
}

const parts = new WeakMap<object, Promise<Part>>();

/** Returns the part of a value, which is immutable. */
function partOf(of: object, build: () => object): Promise<Part> {
  let part = parts.get(of);
  if (part === undefined) {
    const text = JSON.stringify(build());
    part = hashOf(text).then((hash) => ({ hash, text }));
    parts.set(of, part);
  }
  return part;
}

const pricingPart = (pricing: CompiledPricing) => partOf(pricing, () => evaluatedPricing(pricing.pricing));
const grantPart = (grant: Grant) => partOf(grant, () => grantedRecord(grant));

async function hashOf(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Collects an answer of at most MAX_BYTES. Entries that do not fit become deferred ones, never the first. */
function createAnswer({ users, knownPricings, knownGrants }: SnapshotInput, now: Date) {
  const entries = users.map(({ userId }) => JSON.stringify({ userId, deferred: true }));
  const sections = {
    pricings: { known: new Set(knownPricings), parts: new Map<string, string>() },
    grants: { known: new Set(knownGrants), parts: new Map<string, string>() },
  };
  const head = `{"format":${SNAPSHOT_FORMAT},"now":${JSON.stringify(now.toISOString())},"users":[`;
  let bytes = entries.reduce((sum, entry) => sum + bytesOf(entry) + 1, head.length + 50);
  const missing = ({ known, parts }: (typeof sections)["grants"], named: readonly Part[]) =>
    named.filter(({ hash }) => !known.has(hash) && !parts.has(hash));
  const record = ({ parts }: (typeof sections)["grants"]) =>
    `{${Array.from(parts, ([hash, text]) => `"${hash}":${text}`).join(",")}}`;
  return {
    add: (index: number, described: Described, known: string | null | undefined) => {
      const userId = users[index]?.userId ?? "";
      const isUnchanged = described.version !== null && described.version === known;
      const text = isUnchanged
        ? JSON.stringify({ userId, version: described.version, unchanged: true })
        : described.text;
      const pricings = isUnchanged ? [] : missing(sections.pricings, described.pricings);
      const grants = isUnchanged ? [] : missing(sections.grants, described.grants);
      const added = [...pricings, ...grants].reduce((sum, part) => sum + bytesOf(part.text) + part.hash.length + 4, 0);
      const more = bytesOf(text) - bytesOf(entries[index] ?? "") + added;
      if (index > 0 && bytes + more > MAX_BYTES) return;
      bytes += more;
      entries[index] = text;
      for (const part of pricings) sections.pricings.parts.set(part.hash, part.text);
      for (const part of grants) sections.grants.parts.set(part.hash, part.text);
    },
    text: () =>
      `${head}${entries.join(",")}],"pricings":${record(sections.pricings)},"grants":${record(sections.grants)}}`,
  };
}

const encoder = new TextEncoder();
const bytesOf = (text: string) => encoder.encode(text).byteLength;
