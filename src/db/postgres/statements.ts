import type { Pooler } from "./pooler.ts";
import { arrayLiteral } from "./lists.ts";

/*
 * How the driver sends the statements of Drizzle and of `unsafe`: prepared by name, or without a name in one round trip.
 */

/** Executions of a statement text before the driver prepares it. */
const FREQUENT = 3;
/** Maximum prepared texts: each prepared statement costs the server memory per connection. */
const MAX_PREPARED = 200;
const MAX_COUNTED = 2000;
/** Maximum characters of a preparable text: callers control the length of lists in some texts. */
const MAX_TEXT_LENGTH = 8192;

/** Returns a counter of statement texts: true once a text is frequent enough to prepare. */
function frequentTexts(): (text: string) => boolean {
  const frequent = new Set<string>();
  let uses = new Map<string, number>();
  return (text) => {
    if (frequent.has(text)) return true;
    if (frequent.size >= MAX_PREPARED || text.length > MAX_TEXT_LENGTH) return false;
    const count = (uses.get(text) ?? 0) + 1;
    if (count > FREQUENT) {
      uses.delete(text);
      frequent.add(text);
      return true;
    }
    if (uses.size >= MAX_COUNTED) uses = new Map();
    uses.set(text, count);
    return false;
  };
}

type Unsafe = (text: string, parameters?: unknown, options?: object) => unknown;
/** The methods of the driver's pool and transaction handles that Drizzle calls. */
export interface Handle {
  unsafe: Unsafe;
  begin?: (...args: unknown[]) => unknown;
  savepoint?: (...args: unknown[]) => unknown;
}

/**
 * Makes the driver prepare statements that Drizzle sends often. Drizzle disables preparation except for queries named one
 * by one: Postgres then parses, plans and describes each execution with an extra round trip, and reading one contract took
 * four times as long.
 */
export function prepareFrequent(pool: object): void {
  const isFrequent = frequentTexts();
  const replaceUnsafe = (inner: object) => {
    const handle = inner as Handle;
    const { unsafe } = handle;
    handle.unsafe = (text, parameters, options) =>
      Array.isArray(parameters) && parameters.length > 0 && isFrequent(text)
        ? unsafe(text, parameters, { ...options, prepare: true })
        : unsafe(text, parameters, options);
    return inner;
  };
  replaceInner(replaceUnsafe(pool), replaceUnsafe);
}

/** A statement of the driver, before it is sent. */
interface Statement {
  strings: readonly string[];
  args: readonly unknown[];
  tagged: boolean;
  /** Values as they are sent. The driver prefers them to `args`. */
  parameters?: readonly (string | null)[];
  options: { onexecute?: (connection: unknown) => unknown };
  /** Sends a statement. Never called for a statement that is a part of another one. */
  handler: (statement: Statement) => unknown;
}

/**
 * Returns the pool as poolers need it in transaction mode.
 *
 * One statement is in flight per connection, except within transactions: PgBouncer 1.18 gives the backend away while a
 * statement behind another one still asks for the types of its parameters. Its answer is lost, and the connection hangs.
 *
 * Statements have no name unless the pooler keeps it, and still take one round trip. The driver asks for the types of
 * parameters first otherwise. Here each parameter is sent as text, which Postgres reads as the type that the statement needs.
 *
 * `pooler` is called for each statement. Undefined: there is none.
 */
export function throughPooler<Pool extends object>(pool: Pool, pooler: () => Pooler | undefined): Pool {
  const loseName = (statement: Statement) => {
    if (pooler()?.keepsStatements === false) asTexts(statement);
  };
  replaceInner(pool, (inner) => beforeSending(inner, loseName));
  return beforeSending(pool, (statement) => {
    loseName(statement);
    // False ends the pipeline. The driver has its own callback where a transaction begins.
    if (pooler() !== undefined) statement.options.onexecute ??= () => false;
  });
}

/** Returns a handle that calls `change` with each of its statements before it is sent. */
function beforeSending<H extends object>(inner: H, change: (statement: Statement) => void): H {
  const changed = (made: unknown): unknown => {
    // Calls with other arguments return names and lists.
    if (!(made instanceof Promise)) return made;
    const statement = made as object as Statement;
    const { handler } = statement;
    statement.handler = (sent) => {
      change(sent);
      return handler(sent);
    };
    return made;
  };
  const handle = inner as object as Handle;
  const { unsafe } = handle;
  handle.unsafe = (...args) => changed(unsafe(...args));
  return new Proxy(inner, {
    apply: (target, self, args) => changed(Reflect.apply(target as (...args: unknown[]) => unknown, self, args)),
  });
}

/** Sends parameters as texts, unless one has no text for all types, or is a part of the statement. */
function asTexts(statement: Statement): void {
  const { strings, args } = statement;
  if (args.length === 0) return;
  const texts: (string | null)[] = [];
  for (const arg of args) {
    const text = textOf(arg);
    if (text === undefined) return;
    texts.push(text);
  }
  if (statement.tagged) statement.strings = [strings.reduce((text, part, i) => `${text}$${i}${part}`)];
  statement.tagged = false;
  statement.args = [];
  statement.parameters = texts;
}

function textOf(parameter: unknown): string | null | undefined {
  if (parameter === null || typeof parameter === "string") return parameter;
  if (typeof parameter === "number" || typeof parameter === "bigint") return String(parameter);
  const isTexts = Array.isArray(parameter) && parameter.every((value) => typeof value === "string");
  return isTexts ? arrayLiteral(parameter) : undefined;
}

/** Replaces the handles of transactions and savepoints that a pool opens. */
function replaceInner(pool: object, replaced: (inner: object) => object): void {
  const handle = pool as Handle;
  for (const name of ["begin", "savepoint"] as const) {
    const open = handle[name];
    if (open === undefined) continue;
    handle[name] = (...args) => {
      const work = args.pop() as (inner: object) => unknown;
      return open(...args, (inner: object) => {
        replaceInner(inner, replaced);
        return work(replaced(inner));
      });
    };
  }
}
