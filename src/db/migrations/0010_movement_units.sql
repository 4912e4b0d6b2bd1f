-- Units of movements. Locks the ledger for the time of a new column, which needs no rewrite, and of a partial index without entries,
-- for which the ledger is read once. A movement without units is no larger than before.
ALTER TABLE "usage_ledger" ADD COLUMN "units" json;--> statement-breakpoint
ALTER TABLE "usage_ledger_next" ADD COLUMN "units" json;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_ledger_units_idx" ON "usage_ledger" USING btree ("contract_id","created_at") WHERE "usage_ledger"."units" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_ledger_next_units_idx" ON "usage_ledger_next" USING btree ("contract_id","created_at") WHERE "usage_ledger_next"."units" is not null;
--> statement-breakpoint
-- Functions that write movements take their units along. Those of 0004_budgets change by their text, as there.
DO $$
DECLARE
	given record;
	definition text;
	changed text;
BEGIN
	FOR given IN SELECT * FROM (VALUES
		('faregate_swap_ledger', 'renamed_feature_id, spender, budgets', 'renamed_feature_id, spender, budgets, units', 2),
		('faregate_spend', '"holdDue" float8, spender text, budgets json', '"holdDue" float8, spender text, budgets json, units json', 1),
		('faregate_spend', 'created_at, spender,\s+budgets\)', 'created_at, spender, budgets, units)', 1),
		('faregate_spend', 'amount, moment, spender,\s+budgets', 'amount, moment, spender, budgets, units', 1),
		('faregate_change_holds', 'counted numeric, budgets json', 'counted numeric, budgets json, units json', 1),
		('faregate_change_holds', 'delta, created_at,\s+spender, budgets\)', 'delta, created_at, spender, budgets, units)', 1),
		('faregate_change_holds', 'id, counted, "endedAt",\s+spender, budgets', 'id, counted, "endedAt", spender, budgets, units', 1)
	) AS given (name, before, after, times) LOOP
		definition := pg_get_functiondef(given.name::regproc);
		IF (SELECT count(*) FROM regexp_matches(definition, given.before, 'g')) <> given.times THEN
			RAISE EXCEPTION '% does not have % as often as expected', given.name, given.before;
		END IF;
		changed := regexp_replace(definition, given.before, given.after, 'g');
		EXECUTE changed;
	END LOOP;
END $$;
