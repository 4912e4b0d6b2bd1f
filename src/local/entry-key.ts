import { type Spender, spenderPath } from "../client/back/budgets.ts";
import { parseSpender } from "../core/pricing/budgets.ts";

/** A user, and the member who spends, if any. Both decide if an evaluation is refused. */
export interface Asked {
  readonly userId: string;
  /** First id of the spender, as a path. Absent without one. */
  readonly spender?: string;
}

/** Returns the user and member of an evaluation; undefined where the service refuses: for a spender that is no path, and U+0000. */
export function askedOf(userId: string, spender: Spender | undefined): Asked | undefined {
  if (userId.includes("\0")) return undefined;
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
