import { sql, type SQL } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";

/** A balance of a locked contract with the highest threshold raised for it, and the limit's value then. */
export interface RaisedLevel {
  contractId: string;
  serviceId: string;
  limitName: string;
  threshold: number;
  limit: number;
}

/** Statement that remembers raised thresholds; of several of one level the last one. */
export function rememberStatement(raised: readonly RaisedLevel[]): SQL {
  const keyOf = ({ contractId, serviceId, limitName }: RaisedLevel) => `${contractId} ${serviceId} ${limitName}`;
  const latest = [...new Map(raised.map((level) => [keyOf(level), level])).values()].map(
    ({ contractId, serviceId, limitName, threshold, limit }) => ({
      contractId,
      serviceId,
      limitName,
      threshold,
      limit,
    }),
  );
  return sql`
    update usage_levels u set alerted_threshold = r.threshold, alerted_limit = r."limit"
    from json_to_recordset(${JSON.stringify(latest)}::text::json)
      as r ("contractId" text, "serviceId" text, "limitName" text, threshold integer, "limit" numeric)
    where u.contract_id = r."contractId" and u.service_id = r."serviceId" and u.limit_name = r."limitName"`;
}

/** Remembers raised thresholds; of several of one level the last one. */
export async function rememberRaised(tx: Database, raised: readonly RaisedLevel[]): Promise<void> {
  if (raised.length > 0) await tx.execute(rememberStatement(raised));
}
