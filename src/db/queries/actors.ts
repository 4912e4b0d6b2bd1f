import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { organizationKeys, users } from "../schema.ts";

/** Actor of an entry. `name` is the current name of the user or key; null for an unnamed key and for deleted actors. */
export interface Actor {
  kind: "user" | "key" | "anonymous";
  id: string | null;
  name: string | null;
}

/** Replaces the actor columns of rows by one field with the actor and its name. */
export async function withActors<Row extends { actorKind: Actor["kind"]; actorId: string | null }>(
  db: Database,
  rows: readonly Row[],
): Promise<(Omit<Row, "actorKind" | "actorId"> & { actor: Actor })[]> {
  const idsOf = (kind: Actor["kind"]) => [
    ...new Set(rows.flatMap((row) => (row.actorKind === kind && row.actorId !== null ? [row.actorId] : []))),
  ];
  const named = await Promise.all([
    db
      .select({ id: users.id, name: users.username })
      .from(users)
      .where(isAnyOf(users.id, idsOf("user"))),
    db
      .select({ id: organizationKeys.id, name: organizationKeys.name })
      .from(organizationKeys)
      .where(isAnyOf(organizationKeys.id, idsOf("key"))),
  ]);
  const names = new Map(named.flat().map(({ id, name }) => [id, name]));
  return rows.map(({ actorKind, actorId, ...row }) => ({
    ...row,
    actor: { kind: actorKind, id: actorId, name: names.get(actorId ?? "") ?? null },
  }));
}
