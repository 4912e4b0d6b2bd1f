import { SyntaxRefusal, tokenize } from "./tokens.ts";
import type { Token } from "./tokens.ts";
import { MAX_TEXT_LENGTH, TreeReader } from "./syntax-tree.ts";
import type { Tree } from "./syntax-tree.ts";

/**
 * One access to a context. `rewritten` marks the single-quoted form without whitespace, whose key omits the name of the
 * service. All other forms contain a full identifier. Source: features-events.md §2.2.
 */
export interface Reference {
  readonly to: "feature" | "usageLimit" | "usage" | "usageLevel" | "nothing";
  readonly key: string;
  readonly rewritten: boolean;
}

export type ExpressionTree = Tree<Reference>;

export interface Expression {
  readonly tree: ExpressionTree;
  /** All references in the order of the text. */
  readonly references: readonly Reference[];
  /** True if the text names a context. Evaluation rejects expressions that do not. */
  readonly mentionsContext: boolean;
}

const LITERALS: ReadonlyMap<string, boolean | null | undefined> = new Map<string, boolean | null | undefined>([
  ["true", true],
  ["false", false],
  ["null", null],
  ["undefined", undefined],
]);
/** Old and new names of both contexts, accepted in every syntax version. Source: README.md decision 15. */
const CONTEXTS: ReadonlyMap<string, "pricing" | "subscription"> = new Map<string, "pricing" | "subscription">([
  ["pricingContext", "pricing"],
  ["planContext", "pricing"],
  ["subscriptionContext", "subscription"],
  ["userContext", "subscription"],
]);
const SECTIONS = new Map<string, Reference["to"]>([
  ["features", "feature"],
  ["usageLimits", "usageLimit"],
  ["usageLevels", "usageLevel"],
]);

/**
 * Reason for rejecting an expression. `names`: unknown names, or a context that is not accessed by one literal key.
 * `syntax`: any other syntax error.
 */
export type ExpressionRefusal =
  | { readonly rule: "names"; readonly names: readonly string[]; readonly offset: number }
  | { readonly rule: "syntax"; readonly reason: string; readonly offset: number };

/** An access to a context that the language does not support. The message is the offending text. */
class ContextMisuse extends Error {
  readonly offset: number;
  constructor(text: string, offset: number) {
    super(text);
    this.offset = offset;
  }
}

/** Reads `['key']`, `["key"]` or `.key`; undefined when none of them follows. */
function readKey(reader: TreeReader<Reference>): { key: string; end: number } | undefined {
  const [open, key, close] = [reader.peek(), reader.peek(1), reader.peek(2)];
  if (open.kind !== "operator") return undefined;
  if (open.text === "." && key.kind === "name") {
    reader.take();
    return { key: key.text, end: reader.take().end };
  }
  if (open.text !== "[" || key.kind !== "string" || close.text !== "]") return undefined;
  reader.take();
  reader.take();
  return { key: String(key.value), end: reader.take().end };
}

function readReference(reader: TreeReader<Reference>, token: Token, text: string): Reference {
  const misuse = (): ContextMisuse =>
    new ContextMisuse(text.slice(token.start, reader.peek().start).trimEnd(), token.start);
  const first = readKey(reader);
  if (first === undefined) throw misuse();
  const written = (end: number): string => text.slice(token.end, end);
  let reference: Reference;
  if (CONTEXTS.get(token.text) === "subscription") {
    reference = { to: "usage", key: first.key, rewritten: written(first.end) === `['${first.key}']` };
  } else {
    const to = SECTIONS.get(first.key);
    const second = readKey(reader);
    if (to === undefined && second === undefined) reference = { to: "nothing", key: first.key, rewritten: false };
    else if (to === undefined || second === undefined) throw misuse();
    else {
      const rewritten = written(second.end) === `['${first.key}']['${second.key}']`;
      reference = { to, key: second.key, rewritten };
    }
  }
  const next = reader.peek();
  if (next.kind === "operator" && (next.text === "[" || next.text === "." || next.text === "(")) throw misuse();
  return reference;
}

/**
 * Returns the names that the language does not have, in the order of the text. A name after a dot is a key and does not
 * count.
 */
function foreignNames(tokens: readonly Token[]): Token[] {
  return tokens.filter(
    (token, index) =>
      token.kind === "name" &&
      !LITERALS.has(token.text) &&
      !CONTEXTS.has(token.text) &&
      tokens[index - 1]?.text !== ".",
  );
}

/**
 * Parses a feature expression of the closed language, or returns the reason for its rejection. Never throws and never
 * runs anything.
 *
 * Offsets refer to `text`. Unknown features and limits are accepted here. Source: pricing2yaml.md §12.3.
 */
export function parseExpression(
  text: string,
): { ok: true; expression: Expression } | { ok: false; refusal: ExpressionRefusal } {
  const references: Reference[] = [];
  try {
    const reader = new TreeReader<Reference>(text, (self, token) => {
      if (token.kind !== "name") return undefined;
      if (LITERALS.has(token.text)) return { kind: "literal", value: LITERALS.get(token.text) };
      const leaf = readReference(self, token, text);
      references.push(leaf);
      return { kind: "leaf", leaf };
    });
    const foreign = foreignNames(reader.tokens);
    if (foreign[0] !== undefined) {
      const names = [...new Set(foreign.map((token) => token.text))];
      return { ok: false, refusal: { rule: "names", names, offset: foreign[0].start } };
    }
    const tree = reader.read();
    return { ok: true, expression: { tree, references, mentionsContext: references.length > 0 } };
  } catch (error) {
    if (error instanceof ContextMisuse)
      return { ok: false, refusal: { rule: "names", names: [error.message], offset: error.offset } };
    if (error instanceof SyntaxRefusal)
      return { ok: false, refusal: { rule: "syntax", reason: error.message, offset: error.offset } };
    throw error;
  }
}

/**
 * Returns the message for a rejected expression in `field` (`expression` or `serverExpression`). Source:
 * pricing2yaml.md §12.
 */
export function explainRefusal(field: string, refusal: ExpressionRefusal): string {
  if (refusal.rule === "names")
    return `The ${field} of a feature contains forbidden identifiers or invalid context usage: ${refusal.names.join(", ")}. Only pricingContext["features|usageLimits"]["..."], subscriptionContext["..."], true and false are allowed.`;
  return `The ${field} of a feature is invalid: ${refusal.reason} (at character ${refusal.offset + 1})`;
}

/**
 * Replaces the context names used before syntax 3.0, wherever they are identifiers. Quoted text and keys after a dot
 * stay. Source: pricing2yaml.md §2 (c).
 */
export function renameContexts(text: string): string {
  // Match an unclosed quote up to the end. Retrying at every quote would take quadratic time.
  return text.replace(
    /'(?:[^'\\]|\\.?)*(?:'|$)|"(?:[^"\\]|\\.?)*(?:"|$)|(?:\.\s*)?[\p{L}_$][\p{L}\p{N}_$]*/gsu,
    (word) => (word === "planContext" ? "pricingContext" : word === "userContext" ? "subscriptionContext" : word),
  );
}

/** Kinds of names that expressions read. */
export type ReadKind = "feature" | "usageLimit";

/** Returns the token of the key that follows `tokens[index]`, and the index behind it. */
function keyAfter(tokens: readonly Token[], index: number): { key: Token; next: number } | undefined {
  const [open, key, close] = [tokens[index], tokens[index + 1], tokens[index + 2]];
  if (open?.text === "." && key?.kind === "name") return { key, next: index + 2 };
  return open?.text === "[" && key?.kind === "string" && close?.text === "]" ? { key, next: index + 3 } : undefined;
}

/**
 * Renames the keys of contexts in an expression, valid or not. `nameOf` returns the new name, undefined for keys that
 * stay. Returns the keys that changed, in the order of the text; every other character stays as written.
 */
export function renameKeys(
  text: string,
  nameOf: (kind: ReadKind, key: string) => string | undefined,
): { text: string; changed: { kind: ReadKind; from: string; to: string }[] } {
  const changed: { kind: ReadKind; from: string; to: string }[] = [];
  if (text.length > MAX_TEXT_LENGTH) return { text, changed };
  const tokens = tokenize(text);
  let renamed = "";
  let end = 0;
  for (const [index, { kind, text: name }] of tokens.entries()) {
    const context = kind === "name" && tokens[index - 1]?.text !== "." ? CONTEXTS.get(name) : undefined;
    const first = context === undefined ? undefined : keyAfter(tokens, index + 1);
    if (first === undefined) continue;
    const section = SECTIONS.get(String(first.key.value ?? first.key.text));
    const read = context === "subscription" ? first : section && keyAfter(tokens, first.next);
    if (read === undefined) continue;
    const { key } = read;
    const from = String(key.value ?? key.text);
    const of: ReadKind = section === "feature" && context === "pricing" ? "feature" : "usageLimit";
    const to = nameOf(of, from);
    if (to === undefined) continue;
    const quote = key.kind === "string" ? key.text.charAt(0) : "";
    renamed += text.slice(end, key.start) + quote + to + quote;
    ({ end } = key);
    changed.push({ kind: of, from, to });
  }
  return { text: renamed + text.slice(end), changed };
}
