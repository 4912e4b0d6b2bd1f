-- Budgets of past moments. Locks `contract_states` for the time of a new column, which rewrites nothing. Contracts that have budgets
-- already have no record of them until the next change.
ALTER TABLE "contract_states" ADD COLUMN "budgets" json;