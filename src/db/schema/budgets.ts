import { check, index, integer, json, pgTable, primaryKey, text, unique } from "drizzle-orm/pg-core";
import { sql } from "drizzle-orm";
import type { BudgetMode, BudgetWindow } from "../../core/pricing/budgets.ts";
import { amount, createdAt, moment, updatedAt } from "./columns.ts";

/** Budgets of a contract; see core/pricing/budgets.ts. The contract's `hasBudgets` is true while it has some. */
export const contractBudgets = pgTable(
  "contract_budgets",
  {
    /** Names the balances. A budget that gets another limit, spender, unit or window gets another id. */
    id: text("id").notNull(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    name: text("name").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    /** Path with `*` for any id. Null: the whole contract. */
    spender: text("spender"),
    unit: text("unit"),
    /** Number, or the name of the limit whose value it is. */
    amount: json("amount").$type<number | string>().notNull(),
    window: json("span").$type<BudgetWindow>().notNull(),
    mode: text("mode").$type<BudgetMode>().notNull(),
    until: moment("ends_at"),
    thresholds: json("thresholds").$type<number[]>().notNull(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
    /** Path of the one who was denied last; null for nobody, or nothing denied yet. */
    deniedSpender: text("denied_spender"),
    deniedAmount: amount("denied_amount"),
    deniedAt: moment("denied_at"),
  },
  (t) => [
    primaryKey({ name: "contract_budgets_pk", columns: [t.id, t.organizationId] }),
    // No foreign key on the contract, as for blocks: triggers delete the rows with it, and move them along.
    unique("contract_budgets_name_unique").on(t.contractId, t.name, t.organizationId),
    check("contract_budgets_mode_known", sql`${t.mode} in ('stop', 'warn')`),
  ],
);

/** Use of a budget by one spender, in the last window that had any. Movements of the ledger prove it. */
export const budgetBalances = pgTable(
  "budget_balances",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    /** Id of the budget. */
    budget: text("budget").notNull(),
    /** Path of the spender; empty for the whole contract. */
    spender: text("spender").notNull(),
    used: amount("used").notNull().default(0),
    /** Sum of what open holds and leases hold of it. */
    held: amount("held").notNull().default(0),
    /** Start of the window. */
    since: moment("since").notNull(),
    alertedThreshold: integer("alerted_threshold"),
    alertedLimit: amount("alerted_limit"),
  },
  (t) => [
    primaryKey({ name: "budget_balances_pk", columns: [t.contractId, t.budget, t.spender, t.organizationId] }),
    index("budget_balances_held_idx")
      .on(t.contractId)
      .where(sql`${t.held} > 0`),
    check("budget_balances_not_negative", sql`${t.used} >= 0 and ${t.held} >= 0`),
  ],
);
