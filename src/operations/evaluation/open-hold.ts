import { findHold, type FoundHold as AddressedHold } from "../../db/queries/hold-listing.ts";
import { type Context, isInTransaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { evaluatedOrganization, type LockedHolder, withLockedHolder } from "./prepare.ts";
import type { HoldView } from "./request.ts";
import { viewHold } from "./settlement.ts";

/**
 * Finds a hold of the caller's organization.
 * @throws Failure notFound, also for a malformed id and for another organization's hold.
 */
export async function requireHold(ctx: Context, id: string): Promise<AddressedHold> {
  const found = /^[0-9a-f]{24}$/.test(id) ? await readHold(ctx, id) : undefined;
  if (found === undefined || found.organizationId !== evaluatedOrganization(ctx)) {
    throw new Failure("notFound", `Hold ${id} not found`);
  }
  return found;
}

/** Reads the hold together with other requests; inside a transaction on its own connection. */
async function readHold(ctx: Context, id: string): Promise<AddressedHold | undefined> {
  return isInTransaction(ctx) ? findHold(ctx.db, id) : ((await ctx.resources.snapshots.hold(id)) ?? undefined);
}

/** Failure of a call that needs an open hold. */
export function holdEnded({ id, state, endedAt }: Pick<HoldView, "id" | "state" | "endedAt">): Failure {
  const how = state === "expired" ? "expired" : `was ${state}`;
  return new Failure("conflict", `CONFLICT: Hold ${id} ${how} at ${endedAt ?? ""}`);
}

/**
 * Locks a hold's contract until `work` and its transaction end. The hold and the contract are current under the lock.
 * @throws Failure notFound as requireHold; conflict if the hold has ended, unless `onEnded` returns an answer for that.
 */
export async function withOpenHold<T>(
  ctx: Context,
  id: string,
  work: (ctx: Context, opened: AddressedHold & LockedHolder) => Promise<T>,
  onEnded?: (hold: HoldView) => { answer: T } | undefined,
): Promise<T> {
  const { organizationId, userId } = await requireHold(ctx, id);
  return withLockedHolder(ctx, { organizationId, userId }, async (ctx, holder) => {
    const found = await findHold(ctx.db, id);
    if (found === undefined) throw new Failure("notFound", `Hold ${id} not found`);
    const view = viewHold(found.hold, userId, holder.at);
    if (view.state === "open") return work(ctx, { ...found, ...holder });
    const ended = onEnded?.(view);
    if (ended === undefined) throw holdEnded(view);
    return ended.answer;
  });
}
