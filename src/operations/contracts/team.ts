import { or } from "drizzle-orm";
import type { PrivateEvent } from "../../core/event-messages.ts";
import {
  changeMembers,
  findMember,
  type MemberChanges,
  type MemberRow,
  pageMembers,
  readMembers,
  sumMemberUse,
} from "../../db/queries/contract-members.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { loadLevels } from "../../db/queries/usage.ts";
import { rememberRaised } from "../../db/queries/usage-alerts.ts";
import { contractMembers } from "../../db/schema.ts";
import { containsText } from "../access.ts";
import { audit } from "../audit.ts";
import { clampPageSize, type Context, newId, snapshot, transaction } from "../context.ts";
import { type ContractAddress, findContract, memberNotFound } from "../contract-address.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { evaluationIfAny, grantedLimit } from "../evaluations.ts";
import { type LockedContract, lockCurrent } from "../locked-contract.ts";
import { thresholdEvents } from "../usage-events.ts";

/*
 * Members of a contract: the people who use it, and the seats that they take. Source: contract members.
 */

/** A member in the form that endpoints return. */
export interface MemberView {
  readonly id: string;
  readonly name: string | null;
  readonly createdAt: Date;
}

/** A member with its use in the running periods, by limit id. Contains amounts above 0 only. */
export interface MemberUse extends MemberView {
  readonly used: Readonly<Record<string, number>>;
}

/** A member as requested. */
export interface NewMember {
  id: string;
  name: string | null;
}

export type MemberAddress = ContractAddress & { memberId: string };

const viewOf = ({ memberId, name, createdAt }: MemberRow): MemberView => ({ id: memberId, name, createdAt });

/**
 * Adds a member to a contract, or gives it another name. A repeated call changes nothing.
 * @throws Failure notFound for an unknown contract; conflict where no seat is free.
 */
export async function putMember(
  ctx: Context,
  { name, ...address }: MemberAddress & { name: string | null },
): Promise<{ member: MemberView; isNew: boolean }> {
  await applyDueChangesOf(ctx, address);
  return transaction(ctx, async (ctx) => {
    const locked = await lockCurrent(ctx, address);
    const before = await findMember(ctx.db, locked.contract.contractId, address.memberId);
    const after = before === undefined ? newRow(locked, { id: address.memberId, name }) : { ...before, name };
    const changed = before !== undefined && before.name !== name ? [after] : [];
    const events = await applyChanges(ctx, locked, {
      added: before === undefined ? [after] : [],
      removed: [],
      changed,
    });
    if (before?.name !== name) {
      await auditTeam(ctx, locked, { before: before && viewOf(before), after: viewOf(after) });
    }
    await recordOf(ctx, locked, events);
    return { member: viewOf(after), isNew: before === undefined };
  });
}

/**
 * Removes a member from a contract, and frees its seat.
 * @throws Failure notFound for an unknown contract or member.
 */
export async function removeMember(ctx: Context, address: MemberAddress): Promise<void> {
  await applyDueChangesOf(ctx, address);
  await transaction(ctx, async (ctx) => {
    const locked = await lockCurrent(ctx, address);
    const before = await findMember(ctx.db, locked.contract.contractId, address.memberId);
    if (before === undefined) throw memberNotFound(address.memberId, locked.userId);
    const events = await applyChanges(ctx, locked, { added: [], removed: [before], changed: [] });
    await auditTeam(ctx, locked, { before: viewOf(before) });
    await recordOf(ctx, locked, events);
  });
}

/**
 * Makes a list the members of a contract, in one transaction. Members that stay keep their moment.
 * @throws Failure notFound for an unknown contract; conflict where members are added and not all have a seat.
 */
export async function replaceMembers(
  ctx: Context,
  { members, ...address }: ContractAddress & { members: readonly NewMember[] },
): Promise<{ added: number; removed: number; changed: number }> {
  await applyDueChangesOf(ctx, address);
  return transaction(ctx, async (ctx) => {
    const locked = await lockCurrent(ctx, address);
    const before = new Map(
      (await readMembers(ctx.db, locked.contract.contractId)).map((row) => [row.memberId, row] as const),
    );
    const wanted = new Set(members.map(({ id }) => id));
    const changes: MemberChanges = {
      added: members.filter(({ id }) => !before.has(id)).map((member) => newRow(locked, member)),
      removed: [...before.values()].filter(({ memberId }) => !wanted.has(memberId)),
      changed: members.flatMap(({ id, name }) => {
        const row = before.get(id);
        return row === undefined || row.name === name ? [] : [{ ...row, name }];
      }),
    };
    const events = await applyChanges(ctx, locked, changes, before.size);
    const [added, removed, changed] = [changes.added.length, changes.removed.length, changes.changed.length];
    if (added + removed + changed > 0) {
      const after = { members: members.length, added, removed, changed };
      await auditTeam(ctx, locked, { before: { members: before.size }, after });
    }
    await recordOf(ctx, locked, events);
    return { added, removed, changed };
  });
}

const newRow = ({ contract, organizationId, now }: LockedContract, { id, name }: NewMember): MemberRow => ({
  contractId: contract.contractId,
  organizationId,
  memberId: id,
  name,
  place: newId(now),
  createdAt: now,
});

/**
 * Changes the list and the balances of seats. Returns the events to record last.
 * @throws Failure conflict where members are added and not all have a seat.
 */
async function applyChanges(
  ctx: Context,
  { contract, userId, now }: LockedContract,
  changes: MemberChanges,
  present?: number,
): Promise<PrivateEvent[]> {
  const { contractId } = contract;
  const { added, removed, changed } = changes;
  if (added.length + removed.length + changed.length === 0) return [];
  const before = present ?? contract.memberCount;
  const count = before - removed.length + added.length;
  const levels = (await loadLevels(ctx.db, contractId)).filter(({ countsMembers }) => countsMembers);
  const evaluation = levels.length === 0 ? undefined : await evaluationIfAny(ctx, contract, now);
  const seats = levels.map((level) => {
    const limit = grantedLimit(contract, evaluation, level);
    return { level, limit: typeof limit === "number" ? limit : 0 };
  });
  const full = seats.find(({ limit }) => count > limit);
  if (added.length > 0 && full !== undefined) {
    // Removals come first, and as many additions as have a seat.
    const taken = Math.max(before - removed.length, Math.floor(full.limit));
    throw new Failure("conflict", `CONFLICT: No seat is free: ${taken} of ${full.limit} are taken`);
  }
  await changeMembers(ctx.db, contractId, changes, { count, now });
  const moved = seats.map(({ level, limit }) => ({ level, limit, before: level.consumed, after: count }));
  const { events, raised } = thresholdEvents(contract, userId, moved);
  await rememberRaised(ctx.db, raised);
  const event = (code: "MEMBER_ADDED" | "MEMBER_REMOVED", { memberId, name }: MemberRow): PrivateEvent => ({
    code,
    details: { contractId, userId, memberId, name },
  });
  return [
    ...removed.map((row) => event("MEMBER_REMOVED", row)),
    ...added.map((row) => event("MEMBER_ADDED", row)),
    ...events,
  ];
}

const auditTeam = (
  ctx: Context,
  { organizationId, userId: target }: LockedContract,
  change: { before?: object | undefined; after?: object },
) => audit(ctx, { action: "contract.members", organizationId, target, ...change });

const recordOf = (ctx: Context, { organizationId }: LockedContract, events: readonly PrivateEvent[]) =>
  recordEvents(
    ctx.db,
    events.map((event) => ({ organizationId, event })),
  );

/**
 * Shows a member of a contract.
 * @throws Failure notFound for an unknown contract or member.
 */
export function showMember(ctx: Context, address: MemberAddress): Promise<MemberUse> {
  return snapshot(ctx, async (ctx) => {
    const { id, userId } = await findContract(ctx, address);
    const row = await findMember(ctx.db, id, address.memberId);
    if (row === undefined) throw memberNotFound(address.memberId, userId);
    const [shown] = await withUse(ctx, id, [row]);
    if (shown === undefined) throw new Error("a member has no view");
    return shown;
  });
}

/** One page of members, newest first. */
export interface MemberPage {
  data: MemberUse[];
  /** The `before` of the next page; null for the last one. */
  next: string | null;
  /** Number of all matching members. */
  total: number;
}

/**
 * Lists members of a contract that have the text in their id or name.
 * @throws Failure notFound for an unknown contract.
 */
export function listMembers(
  ctx: Context,
  query: ContractAddress & { q: string | undefined; before: string | undefined; limit: number },
): Promise<MemberPage> {
  const limit = clampPageSize(ctx, query.limit);
  return snapshot(ctx, async (ctx) => {
    const { id } = await findContract(ctx, query);
    const { memberId, name } = contractMembers;
    const matches = query.q ? or(containsText(memberId, query.q), containsText(name, query.q)) : undefined;
    const { rows, total } = await pageMembers(ctx.db, id, { matches, before: query.before, limit: limit + 1 });
    const page = rows.slice(0, limit);
    const data = await withUse(ctx, id, page);
    return { data, next: rows.length > limit ? (page.at(-1)?.place ?? null) : null, total };
  });
}

async function withUse(ctx: Context, contractId: string, rows: readonly MemberRow[]): Promise<MemberUse[]> {
  if (rows.length === 0) return [];
  const used = await sumMemberUse(
    ctx.db,
    contractId,
    rows.map(({ memberId }) => memberId),
  );
  return rows.map(({ memberId: id, name, createdAt }) => ({ id, name, used: used.get(id) ?? {}, createdAt }));
}
