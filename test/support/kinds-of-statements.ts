import { parseSync } from "libpg-query";

/*
 * Two statements are of one kind if they use the same tables, functions, types and grammar.
 */

/** Parts of the grammar that every version of Postgres runs alike. */
const COMMON = new Set(
  "A_Const A_Expr A_Star Alias BoolExpr ColumnRef List NullTest ParamRef RangeVar ResTarget SortBy String".split(" "),
);

/** Returns the kind of a statement: what it uses, sorted. */
export function kindOf(text: string): string {
  const used = new Set<string>();
  visit(parseSync(text).stmts, used);
  return [...used].sort().join(" ");
}

function visit(node: unknown, used: Set<string>): void {
  if (typeof node !== "object" || node === null) return;
  for (const [key, value] of Object.entries(node)) {
    if (key === "relname") used.add(`table ${String(value)}`);
    else if (key === "funcname" || key === "names") used.add(JSON.stringify(value));
    else if (/^[A-Z]/.test(key) && !COMMON.has(key)) used.add(key);
    visit(value, used);
  }
}
