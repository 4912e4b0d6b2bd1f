import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript5";

/*
 * Shortens the compiler's declarations to what applications can reach. Editors download and parse all of them, and a
 * name that nobody can import only shows up in wrong suggestions.
 */

/** Where a rule comes from: a document that applications do not have. */
const SOURCE = /\s(?:\* )?Source:\s+(?:\* )?contract [^*]*?(?<=\d)\.(?=\s)/g;

/** Rewrites the declarations of one format in place. `entries` are paths in `folder`. */
export function shortenDeclarations(folder: string, entries: readonly string[]): void {
  for (const file of declarationsIn(folder)) {
    const text = readFileSync(file, "utf8");
    // The compiler rewrites extensions only in JavaScript, and older compilers do not find `x.d.ts` behind `./x.ts`.
    // It indents by four spaces, a tenth of what applications download.
    const found = text.replace(/(from |import\()"(\.\.?\/[^"]+)\.tsx?"/g, '$1"$2.js"');
    const documented = found.replace(SOURCE, "");
    const indented = documented.replace(/^( {4})+/gm, (indent) => "\t".repeat(indent.length / 4));
    writeFileSync(file, indented.replace(/^(export )?declare class [^]*?^\}/gm, withoutPrivates));
  }
  const roots = new Set(entries.map((entry) => join(folder, entry)));
  while (removeUnreached(folder, roots) || removeUnused(folder, roots)) {
    // Each removal may leave other names and files unused.
  }
}

/** Keeps one private member: it makes a class compatible with itself only. The others tell applications nothing. */
function withoutPrivates(declaration: string): string {
  let isFirst = true;
  return declaration.replace(/^(\t\/\*\*(?:(?!\*\/)[^])*\*\/\n)?\tprivate [^;\n]*;\n/gm, () => {
    const kept = isFirst ? "\t#private;\n" : "";
    isFirst = false;
    return kept;
  });
}

/** Removes files that no entry imports. */
function removeUnreached(folder: string, roots: ReadonlySet<string>): boolean {
  const reached = new Set<string>();
  const reach = (file: string) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const { target } of clausesOf(file)) reach(target);
    for (const [, next = ""] of readFileSync(file, "utf8").matchAll(/import\("(\.\.?\/[^"]+)\.js"\)/g)) {
      reach(join(file, "..", `${next}.d.ts`));
    }
  };
  for (const root of roots) reach(root);
  const unreached = declarationsIn(folder).filter((file) => !reached.has(file));
  for (const file of unreached) rmSync(file);
  return unreached.length > 0;
}

/** Removes exports that no other file names, and imports that their own file does not use. */
function removeUnused(folder: string, roots: ReadonlySet<string>): boolean {
  const files = declarationsIn(folder);
  const named = new Set<string>();
  for (const { target, names } of files.flatMap(clausesOf)) for (const name of names) named.add(`${target} ${name}`);
  const isNamed = (file: string, name: string) =>
    roots.has(file) || named.has(`${file} ${name}`) || named.has(`${file} *`);
  let hasChanged = false;
  for (const file of files) {
    const text = readFileSync(file, "utf8");
    const shorter = withoutUnusedImports(withoutUnusedExports(text, (name) => isNamed(file, name)));
    if (shorter === text) continue;
    writeFileSync(file, shorter);
    hasChanged = true;
  }
  return hasChanged;
}

interface Clause {
  /** File that the clause imports or re-exports from. */
  target: string;
  /** Names in that file; `*` for all. */
  names: string[];
}

const CLAUSE = /^(?:import|export) (?:type )?(\*|\{[^}]*\}) ?from "(\.\.?\/[^"]+)\.js";\n/gm;

function clausesOf(file: string): Clause[] {
  return [...readFileSync(file, "utf8").matchAll(CLAUSE)].map(([, what = "", path = ""]) => ({
    target: join(file, "..", `${path}.d.ts`),
    names: what === "*" ? ["*"] : specifiersOf(what).map(({ source }) => source),
  }));
}

function specifiersOf(list: string): { text: string; source: string; local: string }[] {
  const texts = list.slice(1, -1).split(",");
  return texts.flatMap((each) => {
    const text = each.trim();
    const [source = "", local = source] = text.replace(/^type /, "").split(" as ");
    return text === "" ? [] : [{ text, source, local }];
  });
}

function withoutUnusedExports(text: string, isNamed: (name: string) => boolean): string {
  const source = ts.createSourceFile("declarations.d.ts", text, ts.ScriptTarget.Latest);
  const kept = source.statements.map((statement) => {
    const declaration = text.slice(statement.pos, statement.end);
    const name = nameOfExport(statement, source);
    if (name === undefined || isNamed(name)) return declaration;
    const word = new RegExp(`\\b${name}\\b`);
    const isUsedHere = text.split(word).length > declaration.split(word).length;
    return isUsedHere ? declaration : "";
  });
  return kept.join("") + text.slice(source.statements.at(-1)?.end ?? 0);
}

/** Returns the name that a statement declares and exports; undefined for others. */
function nameOfExport(statement: ts.Statement, source: ts.SourceFile): string | undefined {
  const isDeclaration =
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement) ||
    ts.isClassDeclaration(statement) ||
    ts.isFunctionDeclaration(statement) ||
    ts.isVariableStatement(statement);
  if (!isDeclaration || statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) !== true) {
    return undefined;
  }
  if (!ts.isVariableStatement(statement)) return statement.name?.text;
  const { declarations } = statement.declarationList;
  return declarations.length === 1 ? declarations[0]?.name.getText(source) : undefined;
}

function withoutUnusedImports(text: string): string {
  return text.replace(
    /^import (type )?(\{[^}]*\}) from ("[^"]+");\n/gm,
    (clause: string, type = "", list = "", path = "") => {
      const rest = text.replace(clause, "");
      const kept = specifiersOf(list).filter(({ local }) => new RegExp(`\\b${local}\\b`).test(rest));
      if (kept.length === specifiersOf(list).length) return clause;
      return kept.length === 0
        ? ""
        : `import ${type}{ ${kept.map(({ text: each }) => each).join(", ")} } from ${path};\n`;
    },
  );
}

function declarationsIn(folder: string): string[] {
  const all = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return all.filter((file) => file.endsWith(".d.ts")).map((file) => join(folder, file));
}
