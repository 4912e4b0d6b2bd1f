-- Moves movements and sums to another organization by a function of their own, which the archive of a Citus coordinator replaces: its
-- tables cannot be in one statement with those of contracts. They have no foreign keys. Locks nothing.
CREATE FUNCTION faregate_move_movements(contract_ids text[], target text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	UPDATE usage_ledger SET organization_id = target WHERE contract_id = ANY (contract_ids);
	UPDATE usage_hours SET organization_id = target WHERE contract_id = ANY (contract_ids);
	UPDATE usage_days SET organization_id = target WHERE contract_id = ANY (contract_ids);
END $$;
--> statement-breakpoint
REVOKE ALL ON FUNCTION faregate_move_movements(text[], text) FROM PUBLIC;--> statement-breakpoint
DO $$
DECLARE
	given record;
	definition text;
BEGIN
	FOR given IN SELECT * FROM (VALUES
		(', movements AS \(\s+UPDATE usage_ledger [^)]+\([^)]+\)\s+\)', ''),
		(', hours AS \(\s+UPDATE usage_hours [^)]+\([^)]+\)\s+\)', ''),
		(', days AS \(\s+UPDATE usage_days [^)]+\([^)]+\)\s+\)', ''),
		('\nEND \$function\$', E'\n\tPERFORM faregate_move_movements(contract_ids, target);\nEND $function$')
	) AS given (before, after) LOOP
		definition := pg_get_functiondef('faregate_move_service'::regproc);
		IF (SELECT count(*) FROM regexp_matches(definition, given.before, 'g')) <> 1 THEN
			RAISE EXCEPTION 'faregate_move_service does not have % once', given.before;
		END IF;
		EXECUTE regexp_replace(definition, given.before, given.after);
	END LOOP;
END $$;
