-- Holds of which usage is reported while they are open, and movements that were estimated. Locks `holds` and `usage_ledger` for the
-- time of new columns, which rewrite nothing.
ALTER TABLE "holds" ADD COLUMN "kept" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "estimated" boolean;--> statement-breakpoint
ALTER TABLE "usage_ledger_next" ADD COLUMN "estimated" boolean;
--> statement-breakpoint
-- The swap of a compaction copies late movements column by column. The functions that end holds in batches leave kept ones alone:
-- what such a hold has left is read under the contract's lock.
DO $$
DECLARE
	definition text := pg_get_functiondef('faregate_swap_ledger'::regproc);
	name text;
	is_open text := $q$h.until = to_timestamp(given.until / 1000) AND h.state IS NOT DISTINCT FROM 'open'$q$;
BEGIN
	EXECUTE replace(definition, 'spender, budgets', 'spender, budgets, estimated');
	FOREACH name IN ARRAY ARRAY['faregate_consume_or_hold', 'faregate_spend'] LOOP
		definition := pg_get_functiondef(name::regproc);
		IF strpos(definition, is_open) = 0 THEN
			RAISE EXCEPTION '% does not end holds as expected', name;
		END IF;
		EXECUTE replace(definition, is_open, is_open || ' AND NOT h.kept');
	END LOOP;
	-- What a kept hold had left at a past moment is recorded nowhere: it is no part of the past, as with leases.
	definition := pg_get_functiondef('faregate_levels_at'::regproc);
	EXECUTE replace(definition, $q$h.kind = 'hold'$q$, $q$h.kind = 'hold' AND NOT h.kept$q$);
END $$;
