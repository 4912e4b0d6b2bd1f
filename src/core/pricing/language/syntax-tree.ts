import { SyntaxRefusal, tokenize } from "./tokens.ts";
import type { Token } from "./tokens.ts";

/** Operand type of both languages. */
export type Value = boolean | number | string | readonly string[] | null | undefined;

/** A syntax tree. `Leaf` has the parts that are specific to one of the two languages. */
export type Tree<Leaf> =
  | { readonly kind: "literal"; readonly value: Value }
  | { readonly kind: "unary"; readonly operator: string; readonly operand: Tree<Leaf> }
  | { readonly kind: "binary"; readonly operator: string; readonly left: Tree<Leaf>; readonly right: Tree<Leaf> }
  | { readonly kind: "logical"; readonly operator: "&&" | "||"; readonly operands: readonly Tree<Leaf>[] }
  | { readonly kind: "choice"; readonly test: Tree<Leaf>; readonly yes: Tree<Leaf>; readonly no: Tree<Leaf> }
  | { readonly kind: "leaf"; readonly leaf: Leaf };

/** Maximum text length and nesting of both languages. Source: pricing2yaml.md §12.3. */
export const MAX_TEXT_LENGTH = 4_096;
export const MAX_NESTING = 64;

const LEVELS: readonly ReadonlySet<string>[] = [
  new Set(["||"]),
  new Set(["&&"]),
  new Set(["==", "!=", "===", "!=="]),
  new Set(["<", "<=", ">", ">="]),
  new Set(["+", "-"]),
  new Set(["*", "/", "%"]),
];
const UNARY: ReadonlySet<string> = new Set(["!", "-", "+"]);

/** Parses a text by operator precedence: `?:`, `||`, `&&`, equality, comparison, sum, product, sign, parentheses. */
export class TreeReader<Leaf> {
  readonly tokens: readonly Token[];
  private next = 0;
  /** Starts at -1, because the text itself does not count as a level. */
  private depth = -1;
  private readonly leaf: (reader: TreeReader<Leaf>, token: Token) => Tree<Leaf> | undefined;
  private readonly suffix: ((reader: TreeReader<Leaf>, tree: Tree<Leaf>) => Tree<Leaf>) | undefined;

  /**
   * `leaf` reads the language-specific parts that start with `token`; it returns undefined if the token starts none.
   * `suffix` reads the optional part after a string or parenthesis.
   */
  constructor(
    text: string,
    leaf: (reader: TreeReader<Leaf>, token: Token) => Tree<Leaf> | undefined,
    suffix?: (reader: TreeReader<Leaf>, tree: Tree<Leaf>) => Tree<Leaf>,
  ) {
    if (text.length > MAX_TEXT_LENGTH)
      throw new SyntaxRefusal(`the text is longer than ${MAX_TEXT_LENGTH} characters`, MAX_TEXT_LENGTH);
    this.tokens = tokenize(text);
    this.leaf = leaf;
    this.suffix = suffix;
  }

  /**
   * Parses the whole text as one tree.
   * @throws {SyntaxRefusal} for a text outside the language.
   */
  read(): Tree<Leaf> {
    const tree = this.choice();
    const rest = this.peek();
    if (rest.kind !== "end") throw this.unexpected(rest);
    return tree;
  }

  choice(): Tree<Leaf> {
    this.enter();
    const test = this.level(0);
    if (!this.accept("?")) {
      this.depth--;
      return test;
    }
    const yes = this.choice();
    this.expect(":");
    const no = this.choice();
    this.depth--;
    return { kind: "choice", test, yes, no };
  }

  peek(ahead = 0): Token {
    const token = this.tokens[this.next + ahead] ?? this.tokens.at(-1);
    return token ?? { kind: "end", text: "", start: 0, end: 0 };
  }

  take(): Token {
    const token = this.peek();
    if (token.kind !== "end") this.next++;
    return token;
  }

  accept(operator: string): boolean {
    const token = this.peek();
    if (token.kind !== "operator" || token.text !== operator) return false;
    this.next++;
    return true;
  }

  expect(operator: string): void {
    if (!this.accept(operator)) throw this.unexpected(this.peek());
  }

  private level(level: number): Tree<Leaf> {
    const operators = LEVELS[level];
    if (operators === undefined) return this.unary();
    let tree = this.level(level + 1);
    let chain: Tree<Leaf>[] | undefined;
    while (this.peek().kind === "operator" && operators.has(this.peek().text)) {
      const operator = this.take().text;
      const right = this.level(level + 1);
      if (operator !== "&&" && operator !== "||") tree = { kind: "binary", operator, left: tree, right };
      // Build one flat node per chain, so that evaluating a || b || c needs no recursion. Both levels have a single
      // operator, so the chain only grows.
      else if (chain !== undefined) chain.push(right);
      else {
        chain = tree.kind === "logical" && tree.operator === operator ? [...tree.operands, right] : [tree, right];
        tree = { kind: "logical", operator, operands: chain };
      }
    }
    return tree;
  }

  private unary(): Tree<Leaf> {
    const token = this.take();
    if (token.kind === "operator" && UNARY.has(token.text)) {
      this.enter();
      const operand = this.unary();
      this.depth--;
      return { kind: "unary", operator: token.text, operand };
    }
    if (token.kind === "operator" && token.text === "(") {
      const tree = this.choice();
      this.expect(")");
      return this.suffix?.(this, tree) ?? tree;
    }
    if (token.kind === "number") return { kind: "literal", value: token.value };
    if (token.kind === "string") {
      const literal: Tree<Leaf> = { kind: "literal", value: token.value };
      return this.suffix?.(this, literal) ?? literal;
    }
    const leaf = this.leaf(this, token);
    if (leaf === undefined) throw this.unexpected(token);
    return leaf;
  }

  private enter(): void {
    this.depth++;
    if (this.depth > MAX_NESTING)
      throw new SyntaxRefusal(`nested deeper than ${MAX_NESTING} levels`, this.peek().start);
  }

  private unexpected(token: Token): SyntaxRefusal {
    return new SyntaxRefusal(token.kind === "end" ? "unexpected end" : `unexpected ${token.text}`, token.start);
  }
}
