import { sql, type SQL, type SQLWrapper } from "drizzle-orm";

/**
 * Passes texts as one parameter of type text[]. One parameter per element would fail at 65,534, and each length would
 * be a separate statement to prepare. Formatted as a literal, so that it needs no support of the driver.
 */
export function textArray(values: readonly string[]): SQL {
  const literal = `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
  return sql`${literal}::text[]`;
}

/** SQL condition: the column has one of these values. False for an empty list. */
export function isAnyOf(column: SQLWrapper, values: readonly string[]): SQL {
  return sql`${column} = any(${textArray(values)})`;
}
