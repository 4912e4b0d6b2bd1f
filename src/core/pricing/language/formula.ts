import { closeTree, RunFailure } from "./closures.ts";
import type { Closure } from "./closures.ts";
import { excerpt } from "../excerpt.ts";
import type { JsonValue } from "../model.ts";
import { TreeReader } from "./syntax-tree.ts";
import type { Tree, Value } from "./syntax-tree.ts";
import { SyntaxRefusal } from "./tokens.ts";
import type { Token } from "./tokens.ts";

type Variables = Readonly<Record<string, JsonValue>>;

/** Leaves that only formulas have: variables with keys, some functions of Math, and `concat` of texts. */
type Leaf =
  | { readonly kind: "variable"; readonly name: string; readonly keys: readonly Tree<Leaf>[] }
  | { readonly kind: "math"; readonly name: string; readonly operands: readonly Tree<Leaf>[] }
  | { readonly kind: "concat"; readonly text: Tree<Leaf>; readonly operands: readonly Tree<Leaf>[] };

type Reader = TreeReader<Leaf>;

/** Maximum length of a text that `concat` builds. */
const MAX_BUILT_LENGTH = 65_536;
/** Maximum characters quoted from a value. Thousands of formulas may read the same long variable. */
const MAX_QUOTED_LENGTH = 1_000;

const MATH: ReadonlyMap<string, (...numbers: number[]) => number> = new Map([
  ["floor", (...numbers: number[]) => Math.floor(numbers[0] ?? NaN)],
  ["ceil", (...numbers: number[]) => Math.ceil(numbers[0] ?? NaN)],
  ["round", (...numbers: number[]) => Math.round(numbers[0] ?? NaN)],
  ["trunc", (...numbers: number[]) => Math.trunc(numbers[0] ?? NaN)],
  ["abs", (...numbers: number[]) => Math.abs(numbers[0] ?? NaN)],
  ["sign", (...numbers: number[]) => Math.sign(numbers[0] ?? NaN)],
  ["sqrt", (...numbers: number[]) => Math.sqrt(numbers[0] ?? NaN)],
  ["pow", (...numbers: number[]) => Math.pow(numbers[0] ?? NaN, numbers[1] ?? NaN)],
  ["min", Math.min],
  ["max", Math.max],
]);
const LITERALS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);

function readOperands(reader: Reader): Tree<Leaf>[] {
  const operands: Tree<Leaf>[] = [];
  if (reader.accept(")")) return operands;
  do operands.push(reader.choice());
  while (reader.accept(","));
  reader.expect(")");
  return operands;
}

/** Reads any number of `.concat(…)` after an operand that may be a text. */
function readConcats(reader: Reader, text: Tree<Leaf>): Tree<Leaf> {
  let tree = text;
  while (reader.peek().text === "." && reader.peek(1).text === "concat" && reader.peek(2).text === "(") {
    for (let taken = 0; taken < 3; taken++) reader.take();
    tree = { kind: "leaf", leaf: { kind: "concat", text: tree, operands: readOperands(reader) } };
  }
  return tree;
}

function readLeaf(reader: Reader, token: Token): Tree<Leaf> | undefined {
  if (token.kind === "variable") {
    const keys: Tree<Leaf>[] = [];
    for (;;) {
      const [next, name] = [reader.peek(), reader.peek(1)];
      if (next.kind !== "operator") break;
      if (next.text === "." && name.kind === "name" && reader.peek(2).text !== "(") {
        reader.take();
        keys.push({ kind: "literal", value: reader.take().text });
      } else if (next.text === "[") {
        reader.take();
        keys.push(reader.choice());
        reader.expect("]");
      } else break;
    }
    return readConcats(reader, { kind: "leaf", leaf: { kind: "variable", name: token.text, keys } });
  }
  if (token.kind !== "name") return undefined;
  const literal = LITERALS.get(token.text);
  if (literal !== undefined) return { kind: "literal", value: literal };
  const name = reader.peek(1).text;
  if (token.text !== "Math" || !MATH.has(name))
    throw new SyntaxRefusal(`${token.text} is not part of a price formula`, token.start);
  reader.expect(".");
  reader.take();
  reader.expect("(");
  return { kind: "leaf", leaf: { kind: "math", name, operands: readOperands(reader) } };
}

/** Returns the entry `key` of a variable's value; own properties only. */
function entryOf(value: JsonValue, key: Value, name: string): JsonValue {
  // Cast for TypeScript only: JavaScript reads lists by index like maps by key.
  const entries = value as Readonly<Record<string, JsonValue>>;
  if (typeof value === "object" && value !== null && Object.hasOwn(value, String(key)))
    return entries[String(key)] ?? null;
  throw new RunFailure(`the variable ${name} has no entry ${excerpt(String(key), MAX_QUOTED_LENGTH)}`);
}

function closeLeaf(leaf: Leaf): Closure<Variables> {
  if (leaf.kind === "variable") {
    const { name } = leaf;
    const keys = leaf.keys.map((key) => closeTree(key, closeLeaf));
    return (variables) => {
      if (!Object.hasOwn(variables, name)) throw new RunFailure(`the variable ${name} is not defined`);
      let value = variables[name] ?? null;
      for (const key of keys) value = entryOf(value, key(variables), name);
      if (typeof value === "object" && value !== null)
        throw new RunFailure(`the variable ${name} holds a list or map: name one of its entries`);
      return value;
    };
  }
  const operands = leaf.operands.map((operand) => closeTree(operand, closeLeaf));
  if (leaf.kind === "math") {
    const calculate = MATH.get(leaf.name);
    return (variables) => calculate?.(...operands.map((operand) => Number(operand(variables))));
  }
  const text = closeTree(leaf.text, closeLeaf);
  return (variables) => {
    const start = text(variables);
    if (typeof start !== "string") throw new RunFailure("concat is for texts only");
    const parts = operands.map((operand) => String(operand(variables)));
    // Check the length first: the result could exceed the maximum string length of JavaScript.
    if (parts.reduce((length, part) => length + part.length, start.length) > MAX_BUILT_LENGTH)
      throw new RunFailure(`a text longer than ${MAX_BUILT_LENGTH} characters was built`);
    return start.concat(...parts);
  };
}

/**
 * Evaluates a price formula with the given variables. Returns a finite number, or an error message.
 *
 * The closed grammar has numbers, quoted texts, `true`, `false`, and `#name` with `.key`, `['key']` and `[#other]`. It
 * also has the operators of feature expressions, `concat` on texts and ten functions of `Math`. Nothing else runs.
 * Source: pricing2yaml.md §8, README.md decision 14.
 */
export function evaluateFormula(text: string, variables: Variables): { price: number } | { message: string } {
  try {
    const tree = new TreeReader<Leaf>(text, readLeaf, readConcats).read();
    const result = closeTree(tree, closeLeaf)(variables);
    // Twelve digits: 3 × 1.1 is 3.3, not 3.3000000000000003.
    if (typeof result === "number" && Number.isFinite(result)) return { price: Number(result.toPrecision(12)) };
    return {
      message: `Error evaluating the price formula: The evaluated price must result in a valid number. Current result after evaluation: ${excerpt(String(result), MAX_QUOTED_LENGTH)}`,
    };
  } catch (error) {
    if (error instanceof SyntaxRefusal || error instanceof RunFailure)
      return { message: `Error evaluating the price formula: ${error.message}` };
    throw error;
  }
}
