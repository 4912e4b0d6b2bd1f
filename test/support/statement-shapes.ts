import { parseSync } from "libpg-query";
import { DISTRIBUTED_TABLES, placementOf } from "./table-placements.ts";

/*
 * The shape that a statement needs on a Postgres that is distributed by contract:
 * - one that locks or writes a distributed table names one contract for each distributed table in it;
 * - distributed tables are joined by their contract;
 * - no table of the coordinator is in a statement with a distributed one;
 * - a subquery of a distributed table selects a column: Citus cannot hand on rows without any.
 */

/** A node of the parser: an object with one key, its kind. */
type Tree = Readonly<Record<string, unknown>>;

/** A table in one FROM clause, or one that is written. `columns` of a subquery lead to the tables inside. */
interface Source {
  alias: string;
  /** Null for subqueries, functions and common table expressions. */
  table: string | null;
  columns: readonly Column[];
}

/** A column of a subquery. `contract`: the table whose contract it names, or the value that it is. */
interface Column {
  name: string;
  contract: Source | string | undefined;
}

interface Scope {
  sources: Source[];
  /** Names of common table expressions. */
  ctes: Set<string>;
  outer: Scope | undefined;
}

/** Facts about a statement that its text does not have. */
export interface Known {
  /** Names of columns by table. */
  columns: ReadonlyMap<string, ReadonlySet<string>>;
  /** Variables and arguments of the function that has the statement, which count as parameters. */
  variables: ReadonlySet<string>;
  /** Numbers of array parameters that had several elements. Undefined: arrays always may. */
  several: readonly number[] | undefined;
}

/** Returns what is wrong with the statements of a text, each as one phrase. Empty: every distributed Postgres can run them. */
export function shapeProblems(text: string, known: Known): string[] {
  const { stmts = [] } = parseSync(text) as { stmts?: { stmt?: unknown }[] };
  return stmts.flatMap(({ stmt }) => new Statement(known).problems(stmt as Tree));
}

const list = (value: unknown) => (Array.isArray(value) ? (value as Tree[]) : []);
const tree = (value: unknown) => (typeof value === "object" && value !== null ? (value as Tree) : undefined);
const child = (node: unknown, kind: string) => tree(tree(node)?.[kind]);
const texts = (fields: unknown) => list(fields).map((field) => String(child(field, "String")?.["sval"] ?? "*"));

const VERBS = new Map([
  ["SelectStmt", undefined],
  ["InsertStmt", "inserts into"],
  ["UpdateStmt", "updates"],
  ["DeleteStmt", "deletes from"],
]);

const isDistributed = ({ table }: Source) => table !== null && placementOf(table) === "distributed";

/** Returns what `*` stands for. */
const columnsOf = (source: Source): readonly Column[] =>
  isDistributed(source) ? [{ name: DISTRIBUTED_TABLES[source.table ?? ""] ?? "", contract: source }] : source.columns;

class Statement {
  private readonly known: Known;
  /** Distributed tables of the statement. */
  private readonly found: Source[] = [];
  private readonly local = new Set<string>();
  private readonly changed: string[] = [];
  /** Representatives of tables and values whose contract is the same. */
  private readonly same = new Map<unknown, unknown>();
  private readonly joins: Source[][] = [];
  private readonly withoutColumns = new Set<string>();

  constructor(known: Known) {
    this.known = known;
  }

  problems(node: Tree): string[] {
    this.query(node, undefined);
    const problems: string[] = [];
    const names = [...new Set(this.found.map(({ table }) => table))].sort();
    if (this.changed.length > 0 && this.found.some((source) => typeof this.root(source) !== "string")) {
      problems.push(`${this.changed[0]} without one contract`);
    }
    for (const sources of this.joins) {
      const groups = new Set(sources.map((source) => this.root(source)));
      if (groups.size < 2) continue;
      const tables = [...new Set(sources.map(({ table }) => table))].sort().join(", ");
      problems.push(`joins ${tables} by other than the contract`);
    }
    if (this.local.size > 0 && names.length > 0) {
      problems.push(`needs ${names.join(", ")} beside ${[...this.local].sort().join(", ")} of the coordinator`);
    }
    for (const table of this.withoutColumns) problems.push(`selects no column of ${table}`);
    return [...new Set(problems)];
  }

  private root(node: unknown): unknown {
    const parent = this.same.get(node);
    return parent === undefined || parent === node ? node : this.root(parent);
  }

  private unite(one: unknown, other: unknown): void {
    const [a, b] = [this.root(one), this.root(other)];
    // Values are the representatives.
    if (a !== b) this.same.set(...(typeof a === "string" ? ([b, a] as const) : ([a, b] as const)));
  }

  /** Examines a query, and returns the columns of its result. */
  private query(node: Tree, outer: Scope | undefined): readonly Column[] {
    for (const [kind, verb] of VERBS) {
      const body = child(node, kind);
      if (body === undefined) continue;
      const scope: Scope = { sources: [], ctes: new Set(outer?.ctes), outer };
      for (const cte of list(tree(body["withClause"])?.["ctes"])) {
        const { ctename, ctequery } = child(cte, "CommonTableExpr") ?? {};
        scope.ctes.add(String(ctename));
        this.query(tree(ctequery) ?? {}, scope);
      }
      if (verb === undefined) return this.select(body, scope);
      const target = this.relation(tree(body["relation"]) ?? {}, scope);
      if (isDistributed(target)) this.changed.push(`${verb} ${target.table}`);
      if (kind === "InsertStmt") this.insert(body, target, scope);
      for (const from of [...list(body["fromClause"]), ...list(body["usingClause"])]) this.from(from, scope);
      this.where(body["whereClause"], scope);
      this.expressions(
        [body["targetList"], body["returningList"], body["returningClause"], body["onConflictClause"]],
        scope,
      );
      this.join(scope);
    }
    return [];
  }

  private select(body: Tree, scope: Scope): readonly Column[] {
    for (const side of ["larg", "rarg"]) {
      if (body[side] !== undefined) this.query({ SelectStmt: body[side] }, scope);
    }
    for (const from of list(body["fromClause"])) this.from(from, scope);
    this.where(body["whereClause"], scope);
    this.expressions([body["targetList"], body["havingClause"], body["sortClause"], body["valuesLists"]], scope);
    this.join(scope);
    if (body["targetList"] === undefined && body["valuesLists"] === undefined && body["op"] === "SETOP_NONE") {
      for (const { table } of scope.sources.filter(isDistributed)) this.withoutColumns.add(table ?? "");
    }
    for (const clause of list(body["lockingClause"])) this.lock(child(clause, "LockingClause") ?? {}, scope);
    return list(body["targetList"]).flatMap((item) => {
      const { name, val } = child(item, "ResTarget") ?? {};
      const fields = texts(child(val, "ColumnRef")?.["fields"]);
      if (fields.at(-1) === "*")
        return scope.sources.filter(({ alias }) => fields.length < 2 || fields[0] === alias).flatMap(columnsOf);
      return { name: String(name ?? fields.at(-1)), contract: this.contractOf(val, scope) ?? this.valueOf(val, scope) };
    });
  }

  private lock({ lockedRels }: Tree, scope: Scope): void {
    const named = list(lockedRels).map((locked) => String(child(locked, "RangeVar")?.["relname"]));
    for (const source of scope.sources.filter(isDistributed)) {
      if (named.length === 0 || named.includes(source.alias)) this.changed.push(`locks ${source.table}`);
    }
  }

  private insert(body: Tree, target: Source, scope: Scope): void {
    const column = target.table === null ? undefined : DISTRIBUTED_TABLES[target.table];
    const at = list(body["cols"]).findIndex((item) => child(item, "ResTarget")?.["name"] === column);
    const query = tree(body["selectStmt"]);
    const rows = list(child(query, "SelectStmt")?.["valuesLists"]);
    if (rows.length === 0) {
      const contract = query === undefined ? undefined : this.query(query, scope)[at]?.contract;
      if (contract !== undefined) this.unite(target, contract);
      return;
    }
    const values = new Set(rows.map((row) => this.valueOf(list(child(row, "List")?.["items"])[at], scope)));
    const [value] = values;
    if (values.size === 1 && value !== undefined) this.unite(target, value);
    this.expressions(rows, scope);
  }

  private relation(range: Tree, scope: Scope): Source {
    const name = String(range["relname"]);
    const alias = String(tree(range["alias"])?.["aliasname"] ?? name);
    const table = scope.ctes.has(name) || !this.known.columns.has(name) ? null : name;
    const source: Source = { alias, table, columns: [] };
    scope.sources.push(source);
    if (table === null) return source;
    if (isDistributed(source)) this.found.push(source);
    if (placementOf(table) === "coordinator") this.local.add(table);
    return source;
  }

  private from(node: Tree, scope: Scope): void {
    const range = child(node, "RangeVar");
    if (range !== undefined) this.relation(range, scope);
    const join = child(node, "JoinExpr");
    if (join !== undefined) {
      this.from(tree(join["larg"]) ?? {}, scope);
      const left = [...scope.sources];
      this.from(tree(join["rarg"]) ?? {}, scope);
      for (const column of texts(join["usingClause"])) {
        const right = scope.sources.slice(left.length);
        const [a, b] = [left, right].map((sources) => this.owner(column, { ...scope, sources, outer: undefined }));
        if (a !== undefined && b !== undefined) this.unite(a, b);
      }
      this.where(join["quals"], scope);
    }
    const sub = child(node, "RangeSubselect");
    const func = child(node, "RangeFunction");
    const alias = String(tree((sub ?? func)?.["alias"])?.["aliasname"] ?? "");
    if (sub !== undefined) {
      scope.sources.push({ alias, table: null, columns: this.query(tree(sub["subquery"]) ?? {}, scope) });
    }
    if (func !== undefined) {
      this.expressions(func["functions"], scope);
      scope.sources.push({ alias, table: null, columns: [] });
    }
  }

  private where(node: unknown, scope: Scope): void {
    const bool = child(node, "BoolExpr");
    if (bool?.["boolop"] === "AND_EXPR") {
      for (const arg of list(bool["args"])) this.where(arg, scope);
      return;
    }
    const expr = child(node, "A_Expr");
    if (texts(expr?.["name"])[0] === "=") {
      const sides = [expr?.["lexpr"], expr?.["rexpr"]];
      const [a, b] = sides.map((side) => this.contractOf(side, scope));
      const isAny = expr?.["kind"] === "AEXPR_OP_ANY";
      const isPlain = expr?.["kind"] === "AEXPR_OP";
      const other = a === undefined ? sides[0] : sides[1];
      const value = isPlain ? this.valueOf(other, scope) : isAny ? this.onlyOf(other) : undefined;
      const contract = a ?? b;
      if (isPlain && a !== undefined && b !== undefined) this.unite(a, b);
      else if (contract !== undefined && value !== undefined) this.unite(contract, value);
    }
    this.expressions(node, scope);
  }

  /** Examines all subqueries of an expression. */
  private expressions(node: unknown, scope: Scope): void {
    if (Array.isArray(node)) for (const item of node) this.expressions(item, scope);
    else if (typeof node === "object" && node !== null) {
      const sub = child(node, "SubLink");
      if (sub === undefined) for (const value of Object.values(node)) this.expressions(value, scope);
      else {
        this.expressions(sub["testexpr"], scope);
        this.query(tree(sub["subselect"]) ?? {}, scope);
      }
    }
  }

  private join({ sources }: Scope): void {
    const distributed = sources.filter(isDistributed);
    if (distributed.length > 1) this.joins.push(distributed);
  }

  /** Returns the table whose contract an expression names. */
  private contractOf(node: unknown, scope: Scope): Source | undefined {
    const fields = texts(child(node, "ColumnRef")?.["fields"]);
    const [qualifier = "", column] = fields;
    if (fields.length === 1) return this.owner(qualifier, scope);
    if (fields.length !== 2 || column === undefined) return undefined;
    for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
      const source = at.sources.find(({ alias }) => alias === qualifier);
      if (source !== undefined) return this.within(source, column);
    }
    return undefined;
  }

  private within(source: Source, column: string): Source | undefined {
    if (source.table === null) {
      const contract = source.columns.find(({ name }) => name === column)?.contract;
      return typeof contract === "string" ? undefined : contract;
    }
    return DISTRIBUTED_TABLES[source.table] === column ? source : undefined;
  }

  private readonly hasColumn = (source: Source, column: string) =>
    source.table === null
      ? source.columns.some(({ name }) => name === column)
      : (this.known.columns.get(source.table)?.has(column) ?? false);

  private owner(column: string, scope: Scope): Source | undefined {
    for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
      const owners = at.sources.filter((source) => this.hasColumn(source, column));
      if (owners.length > 0)
        return owners.map((source) => this.within(source, column)).find((found) => found !== undefined);
    }
    return undefined;
  }

  /** Returns the name of a parameter, constant or variable. */
  private valueOf(node: unknown, scope: Scope): string | undefined {
    const cast = child(node, "TypeCast");
    if (cast !== undefined) return this.valueOf(cast["arg"], scope);
    const parameter = child(node, "ParamRef");
    if (parameter !== undefined) return `$${String(parameter["number"])}`;
    const constant = child(node, "A_Const");
    if (constant !== undefined) return `'${JSON.stringify(constant["sval"] ?? constant["ival"])}`;
    const fields = texts(child(node, "ColumnRef")?.["fields"]);
    const isVariable = fields.length > 0 && this.known.variables.has(fields[0]?.toLowerCase() ?? "");
    return isVariable && this.contractOf(node, scope) === undefined ? fields.join(".") : undefined;
  }

  /** Returns the name of an array parameter that always had one element. */
  private onlyOf(node: unknown): string | undefined {
    const cast = child(node, "TypeCast");
    const { number } = child(cast?.["arg"] ?? node, "ParamRef") ?? {};
    return typeof number === "number" && this.known.several?.includes(number) === false ? `$${number}` : undefined;
  }
}
