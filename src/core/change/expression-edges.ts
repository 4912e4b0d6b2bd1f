import { closeTree, type Closure } from "../pricing/language/closures.ts";
import type { ExpressionTree, Reference } from "../pricing/language/expression.ts";
import type { Value } from "../pricing/language/syntax-tree.ts";

/** Returns the granted value of a feature or limit of the service. */
export type ValueOf = (to: "feature" | "usageLimit", name: string) => Value;

/** A consumption at which the result of an expression may change, as a function of the granted values. */
interface Edge {
  readonly limit: string;
  readonly at: Closure<ValueOf>;
  readonly offset: Closure<ValueOf> | undefined;
  readonly minus: boolean;
}

/** Operators that compare two values. */
export const COMPARISONS = new Set(["<", "<=", ">", ">=", "==", "!=", "===", "!=="]);

/** Property of a subtree that stays constant while consumption moves between two edges. */
type Steadiness = "value" | "truth" | "unknown";

/** True if the tree reads the consumption of any limit. */
export function readsUsage(tree: ExpressionTree): boolean {
  switch (tree.kind) {
    case "literal":
      return false;
    case "leaf":
      return tree.leaf.to === "usage";
    case "unary":
      return readsUsage(tree.operand);
    case "binary":
      return readsUsage(tree.left) || readsUsage(tree.right);
    case "logical":
      return tree.operands.some((operand) => readsUsage(operand));
    case "choice":
      return [tree.test, tree.yes, tree.no].some((part) => readsUsage(part));
  }
}

/** Finds the consumptions at which the result of an expression may change. */
export class EdgeFinder {
  readonly found: Edge[] = [];
  readonly #nameOf: (reference: Reference) => string | undefined;

  constructor(nameOf: (reference: Reference) => string | undefined) {
    this.#nameOf = nameOf;
  }

  #close(tree: ExpressionTree): Closure<ValueOf> {
    return closeTree<ValueOf, Reference>(tree, (reference) => {
      const name = this.#nameOf(reference);
      const { to } = reference;
      if ((to !== "feature" && to !== "usageLimit") || name === undefined) return () => undefined;
      return (valueOf) => valueOf(to, name);
    });
  }

  /** Matches the consumption of one limit, optionally plus or minus a term that does not depend on consumption. */
  #moving(tree: ExpressionTree): Omit<Edge, "at"> | undefined {
    if (tree.kind === "leaf" && tree.leaf.to === "usage") {
      const limit = this.#nameOf(tree.leaf);
      return limit === undefined ? undefined : { limit, offset: undefined, minus: false };
    }
    if (tree.kind !== "binary" || (tree.operator !== "+" && tree.operator !== "-")) return undefined;
    const [usage, other] = readsUsage(tree.left) ? [tree.left, tree.right] : [tree.right, tree.left];
    if (readsUsage(other) || (tree.operator === "-" && usage !== tree.left)) return undefined;
    const inner = this.#moving(usage);
    if (inner === undefined || inner.offset !== undefined) return undefined;
    return { limit: inner.limit, offset: this.#close(other), minus: tree.operator === "-" };
  }

  /** Records the edges of `tree` and returns what is constant between them. */
  walk(tree: ExpressionTree): Steadiness {
    if (!readsUsage(tree)) return "value";
    const moving = this.#moving(tree);
    if (moving !== undefined) {
      this.found.push({ ...moving, at: () => 0 });
      return "truth";
    }
    switch (tree.kind) {
      case "unary": {
        const inner = this.walk(tree.operand);
        return tree.operator === "!" && inner !== "unknown" ? "value" : inner === "value" ? "value" : "unknown";
      }
      case "binary":
        return this.#walkBinary(tree);
      case "logical":
        return worst(tree.operands.map((operand) => this.walk(operand)));
      case "choice": {
        const test = this.walk(tree.test);
        const branches = worst([this.walk(tree.yes), this.walk(tree.no)]);
        return test === "unknown" ? "unknown" : branches;
      }
      default:
        return "unknown";
    }
  }

  #walkBinary(tree: Extract<ExpressionTree, { kind: "binary" }>): Steadiness {
    const { left, right, operator } = tree;
    if (COMPARISONS.has(operator)) {
      for (const [usage, other] of [
        [left, right],
        [right, left],
      ] as const) {
        const moving = readsUsage(other) ? undefined : this.#moving(usage);
        if (moving === undefined) continue;
        this.found.push({ ...moving, at: this.#close(other) });
        return "value";
      }
    }
    return worst([this.walk(left), this.walk(right)]) === "value" ? "value" : "unknown";
  }
}

function worst(all: readonly Steadiness[]): Steadiness {
  return all.includes("unknown") ? "unknown" : all.includes("truth") ? "truth" : "value";
}

/** Computes the edges as numbers. Returns undefined when a term added to consumption is not a number. */
export function placeEdges(edges: readonly Edge[], valueOf: ValueOf): Map<string, number[]> | undefined {
  const placed = new Map<string, number[]>();
  for (const { limit, at, offset, minus } of edges) {
    const shift = offset === undefined ? 0 : offset(valueOf);
    if (typeof shift !== "number") return undefined;
    const value = at(valueOf);
    // JavaScript converts the other side of the comparison to a number.
    const edge = Number(value) + (minus ? shift : -shift);
    const list = placed.get(limit) ?? [];
    placed.set(limit, list);
    if (edge >= 0 && Number.isFinite(edge)) list.push(edge);
  }
  return placed;
}
