import { SyntaxRefusal } from "./tokens.ts";
import type { Token } from "./tokens.ts";
import { TreeReader } from "./syntax-tree.ts";
import type { Tree } from "./syntax-tree.ts";

/**
 * One reading of a context. `rewritten` marks the single-quoted form without blanks, whose key is written without the
 * name of the service; every other form carries a full identifier. Source: features-events.md §2.2.
 */
export interface Reference {
  readonly to: "feature" | "usageLimit" | "usage" | "usageLevel" | "nothing";
  readonly key: string;
  readonly rewritten: boolean;
}

export type ExpressionTree = Tree<Reference>;

/** A feature expression, parsed. */
export interface Expression {
  readonly tree: ExpressionTree;
  /** Every reference in the order of the text. */
  readonly references: readonly Reference[];
  /** Whether the text names a context at all; one that does not is refused when it is evaluated. */
  readonly mentionsContext: boolean;
}

const LITERALS: ReadonlyMap<string, boolean | null | undefined> = new Map<string, boolean | null | undefined>([
  ["true", true],
  ["false", false],
  ["null", null],
  ["undefined", undefined],
]);
/** Both spellings of the two contexts, at every syntax version. Source: README.md decision 15. */
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
 * What is wrong with an expression: names that the language does not have and contexts read in another way than by one
 * literal key (`names`), or plain syntax.
 */
export type ExpressionRefusal =
  | { readonly rule: "names"; readonly names: readonly string[]; readonly offset: number }
  | { readonly rule: "syntax"; readonly reason: string; readonly offset: number };

/** A context read in a way the language does not have; the message is the text that does so. */
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

/** The names that the language does not have, in the order of the text; a name after a dot is a key, not a name. */
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
 * Parses a feature expression of the closed language, or says what is outside it. Never throws, never runs anything.
 *
 * Offsets are into `text`. Unknown features and limits are no error here. Source: pricing2yaml.md §12.3.
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

/** The sentence for a refused expression in `field` (`expression` or `serverExpression`). Source: pricing2yaml.md §12. */
export function explainRefusal(field: string, refusal: ExpressionRefusal): string {
  if (refusal.rule === "names")
    return `The ${field} of a feature contains forbidden identifiers or invalid context usage: ${refusal.names.join(", ")}. Only pricingContext["features|usageLimits"]["..."], subscriptionContext["..."], true and false are allowed.`;
  return `The ${field} of a feature is invalid: ${refusal.reason} (at character ${refusal.offset + 1})`;
}

/**
 * `text` with the names that the contexts had before syntax 3.0 replaced, every occurrence as an identifier; text in
 * quotes and keys after a dot stay. Source: pricing2yaml.md §2 (c).
 */
export function renameContexts(text: string): string {
  // A quote without an end takes the rest: searched for again from every quote, it would cost the square of the length.
  return text.replace(
    /'(?:[^'\\]|\\.?)*(?:'|$)|"(?:[^"\\]|\\.?)*(?:"|$)|(?:\.\s*)?[\p{L}_$][\p{L}\p{N}_$]*/gsu,
    (word) => (word === "planContext" ? "pricingContext" : word === "userContext" ? "subscriptionContext" : word),
  );
}
