import type { Caller } from "../../core/access/caller.ts";
import { KEY_REQUIRED } from "../../core/access/check-permission.ts";
import type { Invalidation } from "../../db/postgres/invalidations.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";

/** Contracts of one message, and the most that are collected by id for a slow reader. */
const MAX_PER_MESSAGE = 100;
const MAX_COLLECTED = 1000;
/** Shortest interval of beats. Each change through this process causes a heartbeat. */
const MIN_BEAT_INTERVAL_MS = 50;

/** `contracts` is null when any contract of the organization may have changed. */
export type ChangeMessage =
  | { event: "beat"; data: { at: string } }
  | { event: "change"; data: { contracts: readonly string[] | null } };

export interface ChangeReader {
  /** Resolves when there are messages, or when the signal aborts. */
  wait(signal: AbortSignal): Promise<void>;
  /** Returns the messages so far: changes, then the newest beat. */
  take(): readonly ChangeMessage[];
  /** @throws Failure when the caller may no longer read. */
  recheck(caller: Caller): void;
  close(): void;
}

/**
 * Follows the changes of an organization's contracts, with beats that prove that nothing is missing: the database sends
 * notifications in commit order, so those of every earlier commit precede a heartbeat. Source: contract
 * tokens-and-leases §5.
 * @throws Failure unauthenticated, forbidden; unavailable where changes cannot be followed.
 */
export function followChanges(ctx: Context): ChangeReader {
  const organizationId = organizationOf(ctx.caller);
  const { evaluators, invalidations, now } = ctx.resources;
  if (invalidations === undefined) {
    throw new Failure("unavailable", "Changes cannot be followed here: connect to Node, Bun or Deno");
  }
  const pending = createPending(organizationId);
  let wake = () => {};
  const stops = [
    evaluators.opened(organizationId),
    invalidations.follow((change) => {
      if (pending.add(change)) wake();
    }),
    invalidations.followHeartbeats((sentAt) => {
      // Commits before this stream followed them have not been sent on it.
      if (sentAt < openedAt || sentAt - beatAt < MIN_BEAT_INTERVAL_MS) return;
      beatAt = sentAt;
      pending.beat(new Date(now().getTime() - (performance.now() - sentAt)));
      wake();
    }),
  ];
  const openedAt = performance.now();
  let beatAt = -Infinity;
  // Sends the first beat at once. Its failure only delays it.
  invalidations.invalidationsApplied().catch(() => {});
  return {
    wait: async (signal) => {
      if (pending.isEmpty()) await new Promise<void>((resolve) => (wake = onceAborted(signal, resolve)));
    },
    take: pending.take,
    recheck: (caller) => {
      if (organizationOf(caller) !== organizationId) throw new Failure("forbidden", "The key's permissions changed");
    },
    close: () => {
      for (const stop of stops) stop();
    },
  };
}

function organizationOf(caller: Caller): string {
  if (caller.kind === "anonymous") throw new Failure("unauthenticated", KEY_REQUIRED);
  if (caller.kind === "user") throw new Failure("forbidden", "Changes are told to organization keys only");
  return caller.organizationId;
}

/** Calls `resolve` on abort. Returns a function that calls it now. */
function onceAborted(signal: AbortSignal, resolve: () => void): () => void {
  const done = () => {
    signal.removeEventListener("abort", done);
    resolve();
  };
  signal.addEventListener("abort", done);
  if (signal.aborted) done();
  return done;
}

/** Collects changes for a reader, in bounded memory. */
function createPending(organizationId: string) {
  const contracts = new Set<string>();
  let areAll = false;
  /** True after notifications may have been lost, until the next beat proves that they arrive again. */
  let missed = false;
  let at: Date | undefined;
  const addAll = () => {
    areAll = true;
    contracts.clear();
  };
  return {
    isEmpty: () => contracts.size === 0 && !areAll && at === undefined,
    /** Returns true if the change is one of this organization. */
    add: (change: Invalidation): boolean => {
      if (change.of === "keys" || change.of === "sessions" || change.of === "tokenKeys") return false;
      if (change.of === "everything") missed = true;
      else if (change.of === "contracts") {
        if (!(change.organizationIds?.includes(organizationId) ?? true)) return false;
        addAll();
      } else {
        if ((change.organizationId ?? organizationId) !== organizationId) return false;
        if (!areAll) contracts.add(change.contractId);
        if (contracts.size > MAX_COLLECTED) addAll();
      }
      return true;
    },
    beat: (provenUntil: Date) => {
      if (missed) addAll();
      missed = false;
      at = provenUntil;
    },
    take: (): ChangeMessage[] => {
      const lists = areAll ? [null] : inLists([...contracts]);
      const messages: ChangeMessage[] = lists.map((list) => ({ event: "change", data: { contracts: list } }));
      if (at !== undefined) messages.push({ event: "beat", data: { at: at.toISOString() } });
      contracts.clear();
      areAll = false;
      at = undefined;
      return messages;
    },
  };
}

function inLists(ids: readonly string[]): string[][] {
  const lists: string[][] = [];
  for (let start = 0; start < ids.length; start += MAX_PER_MESSAGE)
    lists.push(ids.slice(start, start + MAX_PER_MESSAGE));
  return lists;
}
