import { type Spender, spenderPath } from "../client/back/budgets.ts";
import { parseSpender } from "../core/pricing/budgets.ts";

/** A user, and the member who spends, if any. Both decide if an evaluation is refused. */
export interface Asked {
  readonly userId: string;
  /** First id of the spender, as a path. Absent without one. */
  readonly spender?: string;
}

/** Length of the longest id of a contract's user. Longer ones could make a request too large that other calls share. */
const MAX_USER_ID_LENGTH = 512;

/**
 * Returns the user and member of an evaluation; undefined where the service refuses: for a spender that is no path, and for a
 * user id that no contract can have.
 */
export function askedOf(userId: string, spender: Spender | undefined): Asked | undefined {
  if (typeof userId !== "string" || userId.length > MAX_USER_ID_LENGTH || userId.includes("\0")) return undefined;
  if (spender === undefined) return { userId };
  const path = spenderPath(spender) ?? "";
  if (parseSpender(path) === undefined) return undefined;
  const end = path.indexOf("/");
  return { userId, spender: end < 0 ? path : path.slice(0, end) };
}

/** Key of an entry. No user id contains U+0000. */
export const entryKey = ({ userId, spender }: Asked): string =>
  spender === undefined ? userId : `${userId}\0${spender}`;

/** Reads an `entryKey`. */
export function askedIn(key: string): Asked {
  const end = key.indexOf("\0");
  return end < 0 ? { userId: key } : { userId: key.slice(0, end), spender: key.slice(end + 1) };
}
