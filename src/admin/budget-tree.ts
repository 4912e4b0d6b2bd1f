import { parsePattern, type SpenderPattern } from "../core/pricing/budgets.ts";
import type { Budget } from "./answers.ts";

/** The budgets of one pattern of spenders, and the patterns inside it. */
export interface BudgetNode {
  /** Null for the whole contract. */
  readonly spender: string | null;
  readonly budgets: Budget[];
  readonly inside: BudgetNode[];
}

const patternOf = (spender: string | null): SpenderPattern => (spender === null ? [] : (parsePattern(spender) ?? []));

const isInside = (inner: SpenderPattern, outer: SpenderPattern): boolean =>
  outer.length < inner.length && outer.every((id, i) => id === null || id === inner[i]);

/** Arranges budgets by spender: each pattern below the longest one that contains it. */
export function budgetTree(budgets: readonly Budget[]): readonly BudgetNode[] {
  const nodes = new Map<string | null, BudgetNode>();
  for (const budget of budgets) {
    const node = nodes.get(budget.spender) ?? { spender: budget.spender, budgets: [], inside: [] };
    node.budgets.push(budget);
    nodes.set(budget.spender, node);
  }
  const ordered = [...nodes.values()]
    .map((node) => ({ node, pattern: patternOf(node.spender) }))
    .toSorted((a, b) => a.pattern.length - b.pattern.length);
  const roots: BudgetNode[] = [];
  for (const { node, pattern } of ordered) {
    const outer = ordered.findLast((each) => isInside(pattern, each.pattern));
    (outer?.node.inside ?? roots).push(node);
  }
  return roots;
}
