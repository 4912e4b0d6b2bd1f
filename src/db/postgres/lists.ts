import { sql, type SQL, type SQLWrapper } from "drizzle-orm";

/**
 * Passes the texts as one text[] parameter. One parameter per element would fail above 65,534 elements, and each list
 * length would be another statement to prepare. Sent as an array literal, so the driver needs no array type.
 */
export function textArray(values: readonly string[]): SQL {
  return sql`${arrayLiteral(values)}::text[]`;
}

/** Writes texts as Postgres reads an array. */
export function arrayLiteral(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

/**
 * SQL condition: the column equals one of the values. False for an empty list.
 * A single value has a statement of its own: Postgres plans a prepared statement with a list again for each execution, because
 * it expects ten values of a list that it has not seen. Planning took up to three times as long as execution.
 */
export function isAnyOf(column: SQLWrapper, values: readonly string[]): SQL {
  const [first] = values;
  if (first !== undefined && values.length === 1) return sql`${column} = ${first}::text`;
  return sql`${column} = any(${textArray(values)})`;
}
