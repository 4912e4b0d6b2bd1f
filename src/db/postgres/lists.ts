import { sql, type SQL, type SQLWrapper } from "drizzle-orm";

/**
 * The texts as one parameter of type text[]. A statement with a parameter an element stops working at 65 534 of them, and
 * every length of list is a statement of its own to prepare. Written as a literal, so that it needs no driver's help.
 */
export function textArray(values: readonly string[]): SQL {
  const literal = `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
  return sql`${literal}::text[]`;
}

/** True where the column has one of these values; never true for none of them. */
export function isAnyOf(column: SQLWrapper, values: readonly string[]): SQL {
  return sql`${column} = any(${textArray(values)})`;
}
