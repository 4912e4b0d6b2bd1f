import { parseSync } from "libpg-query";

/*
 * Two statements are of one kind if they use the same tables, functions, types and grammar.
 */

/** Folders of tests that depend on the version of Postgres beside their statements: partitions, plans, notifications. */
export const EACH_CONNECTION = ["test/db", "test/events"];

/**
 * Files that send, with those folders, every kind of statement; and those of races. They run on the oldest supported Postgres,
 * through a pooler. Checked by test/db/statement-shapes.shape.test.ts, which names what is missing.
 */
export const EACH_KIND = [
  "cli/compare",
  "cli/replay",
  "client/back/faregate",
  "client/verify",
  "entries/import-space",
  "http/approvals",
  "http/as-of",
  "http/billing",
  "http/billing-cases",
  "http/blocks",
  "http/blocks-races",
  "http/budgets",
  "http/change-stream",
  "http/conflicts",
  "http/contracts-isolation",
  "http/contracts-listing",
  "http/gate",
  "http/group-novation-gate",
  "http/health",
  "http/holds",
  "http/invitations",
  "http/key-rotation",
  "http/leases",
  "http/limits",
  "http/local-evaluation",
  "http/mass-novation",
  "http/mcp/clients",
  "http/members",
  "http/organizations",
  "http/overrides",
  "http/overview",
  "http/permissions",
  "http/rates",
  "http/recovery",
  "http/replay",
  "http/rollover",
  "http/scheduled",
  "http/service-moves",
  "http/services-listing",
  "http/services-races",
  "http/sessions",
  "http/sign-on",
  "http/snapshot",
  "http/stable-pages",
  "http/stream",
  "http/system",
  "http/trials",
  "http/usage-alerts",
  "http/usage-batches",
  "http/usage-history",
  "http/usage-races",
  "http/usage-waiting",
  "mcp/mcp",
  "security/accounts",
  "security/frozen",
].map((name) => `test/${name}.pg.test.ts`);

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
