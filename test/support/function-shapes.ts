import { parsePlPgSQLSync } from "libpg-query";
import type { Sql } from "postgres";
import { type Known, shapeProblems } from "./statement-shapes.ts";

/** A function of the database. */
interface StoredFunction {
  name: string;
  language: string;
  definition: string;
  body: string;
  arguments: string[] | null;
}

/** Returns what is wrong with the statements of all functions, each once, as `name: problem`. EXECUTE is not looked into. */
export async function functionProblems(sql: Sql, columns: Known["columns"]): Promise<string[]> {
  const functions = await sql<StoredFunction[]>`
    select p.proname as name, l.lanname as language, pg_get_functiondef(p.oid) as definition, p.prosrc as body,
      p.proargnames as arguments
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = 'public'::regnamespace and l.lanname in ('sql', 'plpgsql') order by 1`;
  const problems = functions.flatMap((stored) => {
    const variables = new Set([stored.name, ...(stored.arguments ?? [])]);
    const isPlain = stored.language === "sql";
    const statements = isPlain ? [stored.body] : statementsIn(parsePlPgSQLSync(stored.definition), variables);
    return statements.flatMap((text) =>
      shapeProblems(text, { columns, variables, several: undefined }).map((problem) => `${stored.name}: ${problem}`),
    );
  });
  return [...new Set(problems)];
}

/** Texts before which a parse mode of PL/pgSQL leaves out a SELECT. Mode 0 has whole statements; higher ones assign. */
const EXPRESSION = 2;

/** Returns the statements of a parsed function, and adds the names of its variables. */
function statementsIn(node: unknown, variables: Set<string>): string[] {
  if (Array.isArray(node)) return node.flatMap((item) => statementsIn(item, variables));
  if (typeof node !== "object" || node === null) return [];
  const { refname, query, parseMode } = node as { refname?: string; query?: unknown; parseMode?: number };
  if (refname !== undefined) variables.add(refname);
  if (typeof query !== "string" || parseMode === undefined) {
    return Object.values(node).flatMap((value) => statementsIn(value, variables));
  }
  if (parseMode === 0) return [query];
  return [`select ${parseMode === EXPRESSION ? query : query.replace(/^[^=]*?:?=/, "")}`];
}
