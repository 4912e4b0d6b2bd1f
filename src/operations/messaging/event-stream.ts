import { eq } from "drizzle-orm";
import { type EventFilter, PUBLIC_EVENTS } from "../../core/event-messages.ts";
import { type Caller, isPlatformAdmin } from "../../core/access/caller.ts";
import { type EventPage, newestEvent, readPage } from "../../db/queries/outbox.ts";
import { organizations } from "../../db/schema.ts";
import { isIdentifier, organizationRole } from "../access.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";

/** Poll interval of the outbox where no event server follows it. */
const POLL_MS = 1000;
const PAGE = 100;

export interface EventReader {
  /** The id up to which everything has been read. */
  position(): number;
  /** Returns the next events, or reports lost ones. Returns an empty page when the signal aborts first. */
  next(signal: AbortSignal): Promise<EventPage>;
  /**
   * Checks the caller's current permissions again.
   * @throws Failure forbidden when the caller lost access to this part of the log, or may now read another part.
   */
  recheck(caller: Caller): Promise<void>;
}

/**
 * Opens the log after `lastEventId`, or after the newest event, with the events that the caller may read. Without a
 * key, or with a user key and no organization: the public channel. A key of scope ALL or MANAGEMENT, a member or a
 * platform ADMIN: all events of the organization. Scope EVALUATION: the organization's public events, because such a
 * key may be in a browser and may not list contracts.
 * @throws Failure notFound; forbidden for another organization.
 */
export async function openEventReader(
  ctx: Context,
  input: { organizationId: string | undefined; lastEventId: number | undefined },
): Promise<EventReader> {
  const filter = await filterOf(ctx, input.organizationId);
  let at = input.lastEventId ?? ctx.resources.eventLog?.position() ?? (await newestEvent(ctx.db));
  const read = () =>
    ctx.resources.eventLog?.read(at, filter, PAGE) ?? readPage(ctx.db, { after: at, filter, limit: PAGE });
  return {
    position: () => at,
    recheck: async (caller) => {
      const now = await filterOf({ ...ctx, caller }, input.organizationId);
      if (JSON.stringify(now) !== JSON.stringify(filter))
        throw new Failure("forbidden", "The key's permissions changed");
    },
    next: async (signal) => {
      for (;;) {
        const page = await read();
        at = page.position;
        if (page.lost || page.events.length > 0 || signal.aborted) return page;
        await (ctx.resources.eventLog?.moved(at, signal) ?? pause(POLL_MS, signal));
      }
    },
  };
}

/**
 * Returns the account behind a key: the user, or the owner of the key's organization. Returns the organization's id
 * once it is deleted.
 */
export async function accountOf(ctx: Context, caller: Exclude<Caller, { kind: "anonymous" }>): Promise<string> {
  if (caller.kind === "user") return caller.id;
  const { organizationId } = caller;
  const [found] = await ctx.db
    .select({ ownerId: organizations.ownerId })
    .from(organizations)
    .where(eq(organizations.id, organizationId));
  return found?.ownerId ?? organizationId;
}

async function filterOf(ctx: Context, organizationId: string | undefined): Promise<EventFilter> {
  const { caller } = ctx;
  if (caller.kind === "key") {
    const own = { organizationId: caller.organizationId };
    return caller.scope === "EVALUATION" ? { ...PUBLIC_EVENTS, ...own } : own;
  }
  if (caller.kind === "anonymous" || organizationId === undefined) return PUBLIC_EVENTS;
  if (!isIdentifier(organizationId)) throw new Failure("notFound", "INVALID DATA: Invalid organization ID");
  const role = await organizationRole(ctx, organizationId);
  if (role === undefined && !isPlatformAdmin(caller)) {
    throw new Failure("forbidden", "You are not a member of this organization");
  }
  return { organizationId };
}

/** Resolves after this many milliseconds, or when the signal aborts. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
    return undefined;
  });
}
