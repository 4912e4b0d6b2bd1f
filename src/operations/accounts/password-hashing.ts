import { addressBlock } from "../../core/access/address-block.ts";
import { isPlatformAdmin } from "../../core/access/caller.ts";
import type { Context } from "../context.ts";
import { inTurn, type Requester } from "../state/hashing-queue.ts";

/** Network origin of a request. */
export interface Client {
  /** Empty if unknown. */
  address: string;
  /** Aborted when the client closes the connection. */
  signal?: AbortSignal | undefined;
}

export const UNKNOWN_CLIENT: Client = { address: "" };

/**
 * Queues work that hashes a password under this caller.
 * @throws Failure tooManyRequests, see inTurn.
 */
export function hashing<T>(ctx: Context, { address, signal }: Client, work: () => Promise<T>): Promise<T> {
  const requester: Requester =
    ctx.caller.kind === "user"
      ? { key: ctx.caller.id, kind: isPlatformAdmin(ctx.caller) ? "platformAdmin" : "user", signal }
      : { key: addressBlock(address), kind: "anonymous", signal };
  return inTurn(work, requester, ctx.resources.settings.maxWaitingHashes);
}
