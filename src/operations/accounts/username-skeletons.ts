import { and, desc, eq, isNull, ne, sql } from "drizzle-orm";
import unhomoglyph from "unhomoglyph";
import { violates } from "../../db/postgres/connect.ts";
import { users } from "../../db/schema.ts";
import type { Context, Resources } from "../context.ts";
import { Failure } from "../errors.ts";

export const TAKEN = "INVALID DATA: There is already a user with the username that you are trying to set";

/** Users per statement when filling skeletons after a migration. */
const BATCH = 1000;

/**
 * Returns the form that look-alike names share: `admin` and `аdmin` (with a Cyrillic а), `test1` and `testl`. Case
 * matters. Source: UTS 39, section 4.
 */
export function usernameSkeleton(username: string): string {
  // Names from before the check of characters may have invisible ones.
  const visible = username.normalize("NFD").replace(/\p{Default_Ignorable_Code_Point}/gu, "");
  return unhomoglyph(visible).normalize("NFD");
}

/**
 * Rejects a name that looks like another user's. Inside a transaction it also locks the skeleton until the commit, so
 * that of two concurrent look-alikes one fails. Source: contract README, decision 23; users-organizations §3.4.
 * @throws Failure conflict for a look-alike; notFound (historical) for an identical name.
 */
export async function refuseLookAlike(ctx: Context, username: string, ownId?: string): Promise<void> {
  const skeleton = usernameSkeleton(username);
  await ctx.db.execute(sql`select pg_advisory_xact_lock(hashtextextended(${`username ${skeleton}`}, 0))`);
  const [similar] = await ctx.db
    .select({ username: users.username })
    .from(users)
    .where(and(eq(users.usernameSkeleton, skeleton), ownId === undefined ? undefined : ne(users.id, ownId)))
    // An identical name comes first: it has its own message.
    .orderBy(desc(eq(users.username, username)))
    .limit(1);
  if (similar?.username === username) throw new Failure("notFound", TAKEN);
  if (similar !== undefined) {
    throw new Failure("conflict", "CONFLICT: The username is too similar to an existing one");
  }
}

/** Fills in missing skeletons of older names. Existing names stay, even if they are look-alikes. */
export async function fillUsernameSkeletons({ db }: Pick<Resources, "db">): Promise<void> {
  for (;;) {
    const rows = await db
      .select({ id: users.id, username: users.username })
      .from(users)
      .where(isNull(users.usernameSkeleton))
      .limit(BATCH);
    if (rows.length === 0) return;
    const skeletons = JSON.stringify(
      rows.map(({ id, username }) => ({ id, username, skeleton: usernameSkeleton(username) })),
    );
    // Skips users renamed meanwhile: they already have their new skeleton.
    await db.execute(sql`
      update users set username_skeleton = filled.skeleton
      from jsonb_to_recordset(${skeletons}::text::jsonb) as filled(id text, username text, skeleton text)
      where users.id = filled.id and users.username = filled.username`);
  }
}

/** Turns the database's conflict over a username into the Failure of a taken name. */
export async function refusingTakenName<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (violates(error, "users_username_unique")) throw new Failure("notFound", TAKEN, { cause: error });
    throw error;
  }
}
