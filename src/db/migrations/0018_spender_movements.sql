-- Finds movements with spenders, for their sums over all contracts. Locks the ledger while it is read once for a partial index.
CREATE INDEX IF NOT EXISTS "usage_ledger_spender_idx" ON "usage_ledger" USING btree ("contract_id","created_at") WHERE "usage_ledger"."spender" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_ledger_next_spender_idx" ON "usage_ledger_next" USING btree ("contract_id","created_at") WHERE "usage_ledger_next"."spender" is not null;
