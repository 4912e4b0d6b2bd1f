import { RunFailure } from "../pricing/language/closures.ts";
import { parseExpression } from "../pricing/language/expression.ts";
import type { ExpressionTree, Reference } from "../pricing/language/expression.ts";
import { COMPARISONS, EdgeFinder, placeEdges, readsUsage, type ValueOf } from "./expression-edges.ts";

/** Results of the static analysis of an expression. */
export interface ExpressionFacts {
  /** Canonical form: equal for texts that differ only in whitespace and parentheses. */
  readonly shape: string;
  /** Features and limits whose granted value the expression reads, by their names in the pricing. */
  readonly features: readonly string[];
  readonly limits: readonly string[];
  /** Limits whose consumption the expression reads. */
  readonly usage: readonly string[];
  /**
   * Subset of `limits` that the expression reads only as an upper bound of consumption. Raising such a limit never
   * turns the feature off.
   */
  readonly allowances: readonly string[];
  /** Subset of `limits` that the expression reads only like `allowances`, or compares with the numbers in `thresholds`. */
  readonly caps: readonly string[];
  /**
   * Numbers with which the expression compares a granted limit. Null for a limit that it reads in another form, such as
   * a sum. Has no limit that is only compared with consumption.
   */
  readonly thresholds: ReadonlyMap<string, readonly number[] | null>;
  /** Identifiers of other services, as written in the expression. */
  readonly foreign: readonly string[];
  readonly mentionsContext: boolean;
  /**
   * Returns, per limit, the consumptions at which the result may change. The result is constant at each edge and
   * between two neighbours. Undefined when the expression compares consumption in a form that the analysis does not
   * support.
   */
  edges(valueOf: ValueOf): ReadonlyMap<string, readonly number[]> | undefined;
}

/** Returns true for a comparison of a limit with a number. */
function comparesWithNumber(tree: Extract<ExpressionTree, { kind: "binary" }>): boolean {
  const [one, other] = [tree.left, tree.right];
  const isLimit = (side: ExpressionTree): boolean => side.kind === "leaf" && side.leaf.to === "usageLimit";
  if (!COMPARISONS.has(tree.operator)) return false;
  return (isLimit(one) && literalNumber(other) !== undefined) || (isLimit(other) && literalNumber(one) !== undefined);
}

/**
 * Collects the limits that are read in any other role than as an upper bound of consumption. Negated comparisons count
 * as another role. With `allowsNumbers`, comparisons with numbers do not.
 */
function readOtherwise(tree: ExpressionTree, positive: boolean, found: Set<string>, allowsNumbers: boolean): void {
  switch (tree.kind) {
    case "literal":
      return;
    case "leaf":
      if (tree.leaf.to === "usageLimit") found.add(tree.leaf.key);
      return;
    case "unary":
      return readOtherwise(tree.operand, false, found, allowsNumbers);
    case "logical":
      for (const operand of tree.operands) readOtherwise(operand, positive, found, allowsNumbers);
      return;
    case "choice":
      readOtherwise(tree.test, false, found, allowsNumbers);
      for (const branch of [tree.yes, tree.no]) readOtherwise(branch, positive, found, allowsNumbers);
      return;
    case "binary": {
      if (allowsNumbers && comparesWithNumber(tree)) return;
      const { left, right, operator } = tree;
      const bound = operator.startsWith("<") ? right : operator.startsWith(">") ? left : undefined;
      for (const [side, other] of [
        [left, right],
        [right, left],
      ] as const)
        if (!(positive && side === bound && side.kind === "leaf" && readsUsage(other)))
          readOtherwise(side, false, found, allowsNumbers);
    }
  }
}

function literalNumber(tree: ExpressionTree): number | undefined {
  if (tree.kind === "literal") return typeof tree.value === "number" ? tree.value : undefined;
  if (tree.kind !== "unary" || tree.operator === "!") return undefined;
  const value = literalNumber(tree.operand);
  return value === undefined || tree.operator === "+" ? value : -value;
}

/** Collects the {@link ExpressionFacts.thresholds} of a tree. `add` gets null for a form that has none. */
function findThresholds(tree: ExpressionTree, add: (limit: Reference, threshold: number | null) => void): void {
  switch (tree.kind) {
    case "literal":
      return;
    case "leaf":
      if (tree.leaf.to === "usageLimit") add(tree.leaf, null);
      return;
    case "unary":
      return findThresholds(tree.operand, add);
    case "logical":
      for (const operand of tree.operands) findThresholds(operand, add);
      return;
    case "choice":
      for (const part of [tree.test, tree.yes, tree.no]) findThresholds(part, add);
      return;
    case "binary": {
      const isComparison = COMPARISONS.has(tree.operator);
      for (const [side, other] of [
        [tree.left, tree.right],
        [tree.right, tree.left],
      ] as const) {
        const number = literalNumber(other);
        if (!isComparison || side.kind !== "leaf" || side.leaf.to !== "usageLimit") findThresholds(side, add);
        else if (number !== undefined) add(side.leaf, number);
        // Two grants differ in such a comparison as their limits do, which grow linearly.
        else if (other.kind !== "leaf" || other.leaf.to !== "usage") add(side.leaf, null);
      }
    }
  }
}

/**
 * Analyses an accepted expression of the service: the names it reads and the edges at which its result changes. Returns
 * undefined for a text that does not parse. `prefix` is the lower-case name of the service plus a dash, and marks
 * identifiers that are written in full.
 */
export function expressionFacts(text: string, prefix: string): ExpressionFacts | undefined {
  const parsed = parseExpression(text);
  if (!parsed.ok) return undefined;
  const { tree, references, mentionsContext } = parsed.expression;
  const nameOf = ({ key, rewritten }: Reference): string | undefined => {
    if (rewritten) return key;
    return key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
  };
  const named = (to: Reference["to"]): string[] => {
    const names = references.filter((each) => each.to === to).map(nameOf);
    return [...new Set(names.filter((name) => name !== undefined))];
  };
  const finder = new EdgeFinder(nameOf);
  const steady = finder.walk(tree) !== "unknown";
  const usage = named("usage");
  const limits = named("usageLimit");
  const readOnlyAs = (allowsNumbers: boolean): string[] => {
    const otherwise = new Set<string>();
    readOtherwise(tree, true, otherwise, allowsNumbers);
    return limits.filter((name) => !otherwise.has(name) && !otherwise.has(prefix + name));
  };
  const thresholds = new Map<string, readonly number[] | null>();
  findThresholds(tree, (reference, threshold) => {
    const name = nameOf(reference);
    if (name === undefined) return;
    const known = thresholds.get(name);
    thresholds.set(name, threshold === null || known === null ? null : [...(known ?? []), threshold]);
  });
  return {
    thresholds,
    shape: JSON.stringify(tree, (_, value: unknown) =>
      typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
    ),
    features: named("feature"),
    limits,
    allowances: readOnlyAs(false),
    caps: readOnlyAs(true),
    usage,
    foreign: references.filter((each) => each.to !== "nothing" && nameOf(each) === undefined).map((each) => each.key),
    mentionsContext,
    edges: (valueOf) => {
      if (!steady) return undefined;
      try {
        const placed = placeEdges(finder.found, valueOf);
        for (const name of usage) if (placed?.has(name) === false) placed.set(name, []);
        return placed;
      } catch (error) {
        if (error instanceof RunFailure) return undefined;
        throw error;
      }
    },
  };
}
