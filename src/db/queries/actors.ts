import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import type { ActorKind } from "../../core/access/caller.ts";
import { billingConnections, organizationKeys, users } from "../schema.ts";

/**
 * Author of a change. `name` is the current name of the user or key, or the provider of a connection; null for an unnamed key
 * or a deleted author.
 */
export interface Actor {
  kind: ActorKind;
  id: string | null;
  name: string | null;
}

/** A row of any kind, with its author in place of the two columns. */
type WithActor<Row> = Row extends unknown ? Omit<Row, "actorKind" | "actorId"> & { actor: Actor } : never;

/** Replaces `actorKind` and `actorId` of each row by an Actor with its current name. */
export async function withActors<Row extends { actorKind: Actor["kind"]; actorId: string | null }>(
  db: Database,
  rows: readonly Row[],
): Promise<WithActor<Row>[]> {
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
    idsOf("billing").length === 0
      ? []
      : db
          .select({ id: billingConnections.id, name: billingConnections.provider })
          .from(billingConnections)
          .where(isAnyOf(billingConnections.id, idsOf("billing"))),
  ]);
  const names = new Map(named.flat().map(({ id, name }) => [id, name]));
  return rows.map(({ actorKind, actorId, ...row }) => {
    const actor = { kind: actorKind, id: actorId, name: names.get(actorId ?? "") ?? null };
    // TypeScript cannot distribute over a type parameter.
    return { ...row, actor } as unknown as WithActor<Row>;
  });
}
