import type { Tree, Value } from "./syntax-tree.ts";

/** A compiled text. Reads its input from `Frame`, without side effects. */
export type Closure<Frame> = (frame: Frame) => Value;

/** Maximum length of strings built by `+`. Bounds the memory that one accepted text can use. */
const MAX_STRING_LENGTH = 65_536;

/** A runtime failure of a compiled text. Its message is safe to return to the caller. */
export class RunFailure extends Error {}

/**
 * Casts the value to a number for TypeScript only, because JavaScript's operators convert operands as intended. Safe: a
 * {@link Value} is a primitive or a list of strings, so a conversion never runs foreign code.
 * @throws {RunFailure} for a text above the maximum length.
 */
function operand(value: Value): number {
  refuseLong(isLong(value));
  return value as number;
}

function add(left: Value, right: Value): Value {
  const sum: unknown = operand(left) + operand(right);
  if (typeof sum === "string" && sum.length > MAX_STRING_LENGTH)
    throw new RunFailure(`a string longer than ${MAX_STRING_LENGTH} characters was built`);
  return typeof sum === "string" ? sum : Number(sum);
}

function isLong(value: Value): boolean {
  return typeof value === "string" && value.length > MAX_STRING_LENGTH;
}

/**
 * Rejects operations on long texts. Features may hold megabytes, and one expression could read them a hundred times.
 * Equality is slow only if both texts are long: texts of different lengths differ at once.
 */
function refuseLong(isRefused: boolean): void {
  if (isRefused) throw new RunFailure(`a text longer than ${MAX_STRING_LENGTH} characters cannot be compared`);
}

function isSame(left: Value, right: Value): boolean {
  refuseLong(isLong(left) && isLong(right));
  return left === right;
}

function isEqual(left: Value, right: Value): boolean {
  refuseLong(isLong(left) && isLong(right));
  return left == right; // oxlint-disable-line eqeqeq -- the language has this operator
}

function binary<Frame>(operator: string, left: Closure<Frame>, right: Closure<Frame>): Closure<Frame> {
  switch (operator) {
    case "===":
      return (frame) => isSame(left(frame), right(frame));
    case "!==":
      return (frame) => !isSame(left(frame), right(frame));
    case "==":
      return (frame) => isEqual(left(frame), right(frame));
    case "!=":
      return (frame) => !isEqual(left(frame), right(frame));
    case "<":
      return (frame) => operand(left(frame)) < operand(right(frame));
    case "<=":
      return (frame) => operand(left(frame)) <= operand(right(frame));
    case ">":
      return (frame) => operand(left(frame)) > operand(right(frame));
    case ">=":
      return (frame) => operand(left(frame)) >= operand(right(frame));
    case "+":
      return (frame) => add(left(frame), right(frame));
    case "-":
      return (frame) => operand(left(frame)) - operand(right(frame));
    case "*":
      return (frame) => operand(left(frame)) * operand(right(frame));
    case "/":
      return (frame) => operand(left(frame)) / operand(right(frame));
    default:
      return (frame) => operand(left(frame)) % operand(right(frame));
  }
}

function logical<Frame>(operator: "&&" | "||", operands: readonly Closure<Frame>[]): Closure<Frame> {
  const [first, second, third] = operands;
  if (first === undefined || second === undefined) return () => undefined;
  // Fast path without a loop: nearly all real expressions have two or three operands.
  if (third === undefined)
    return operator === "&&" ? (frame) => first(frame) && second(frame) : (frame) => first(frame) || second(frame);
  if (operands.length === 3)
    return operator === "&&"
      ? (frame) => first(frame) && second(frame) && third(frame)
      : (frame) => first(frame) || second(frame) || third(frame);
  const stopsAt = operator === "||";
  return (frame) => {
    let value: Value;
    for (const next of operands) {
      value = next(frame);
      if (Boolean(value) === stopsAt) break;
    }
    return value;
  };
}

function unary<Frame>(operator: string, inner: Closure<Frame>): Closure<Frame> {
  if (operator === "!") return (frame) => !inner(frame);
  if (operator === "-") return (frame) => -operand(inner(frame));
  return (frame) => Number(operand(inner(frame)));
}

/**
 * Compiles a tree into closures with the semantics of JavaScript's operators. `&&` and `||` short-circuit and return an
 * operand; comparing with undefined by `<` or `>` is false. Never generates code from text. `closeWhole` may return an
 * optimized closure for a whole subtree. Source: pricing2yaml.md §12.4.
 */
export function closeTree<Frame, Leaf>(
  tree: Tree<Leaf>,
  closeLeaf: (leaf: Leaf) => Closure<Frame>,
  closeWhole?: (tree: Tree<Leaf>) => Closure<Frame> | undefined,
): Closure<Frame> {
  const whole = closeWhole?.(tree);
  if (whole !== undefined) return whole;
  const close = (each: Tree<Leaf>): Closure<Frame> => closeTree(each, closeLeaf, closeWhole);
  switch (tree.kind) {
    case "literal": {
      const { value } = tree;
      return () => value;
    }
    case "leaf":
      return closeLeaf(tree.leaf);
    case "unary":
      return unary(tree.operator, close(tree.operand));
    case "binary":
      return binary(tree.operator, close(tree.left), close(tree.right));
    case "logical":
      return logical(tree.operator, tree.operands.map(close));
    case "choice": {
      const test = close(tree.test);
      const yes = close(tree.yes);
      const no = close(tree.no);
      return (frame) => (test(frame) ? yes(frame) : no(frame));
    }
  }
}
