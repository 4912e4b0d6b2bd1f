import type { Tree, Value } from "./syntax-tree.ts";

/** A compiled text: reads what it needs from `Frame` and has no effect. */
export type Closure<Frame> = (frame: Frame) => Value;

/** Strings built by `+` may not outgrow this: a bound on the memory that one accepted text can take. */
const MAX_STRING_LENGTH = 65_536;

/** A failure while a compiled text runs; its message is fit for the caller. */
export class RunFailure extends Error {}

/**
 * The value as a number for the type checker only: JavaScript's operators convert operands by themselves, which is the
 * semantics wanted. Safe because a {@link Value} is a primitive or a list of strings, so no conversion runs foreign code.
 * @throws {RunFailure} for a long text.
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
 * Refuses to read through long texts, which one expression could do a hundred times; features may hold megabytes. Equality
 * takes time only where both are long: texts of different lengths differ at once.
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
  // Two and three operands are nearly all there are in the wild, and need no loop.
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
 * Turns a tree into closures with the semantics of JavaScript's operators: `&&` and `||` return an operand and stop
 * early, relational comparison with undefined is false. No code is ever built from text. `closeWhole` may offer one
 * closure for a whole subtree that it knows a shorter way for. Source: pricing2yaml.md §12.4.
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
