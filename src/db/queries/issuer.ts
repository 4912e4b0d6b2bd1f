import type { MaybePromise } from "../../core/maybe-promise.ts";
import type { Database } from "../postgres/connect.ts";
import { instances } from "../schema.ts";

/** Returns the `iss` of tokens; synchronously once this process has read it. */
export type Issuer = (db: Database) => MaybePromise<string>;

/**
 * The issuer is `publicUrl`, or `urn:faregate:<id of the instance>` without one. The id never changes, so the process reads
 * it once. Only the value is cached: a Worker's requests cannot share a query. Source: contract tokens-and-leases §2.1.
 */
export function createIssuer(publicUrl: string | undefined): Issuer {
  let issuer = publicUrl?.replace(/\/+$/, "");
  return (db) => issuer ?? readInstance(db).then((id) => (issuer = `urn:faregate:${id}`));
}

async function readInstance(db: Database): Promise<string> {
  const [instance] = await db.select({ id: instances.id }).from(instances);
  if (instance === undefined) throw new Error("the table instances has lost its row");
  return instance.id;
}
