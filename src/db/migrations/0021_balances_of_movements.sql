-- Balances of budgets follow from the movements that name them, so that a call sends them once. With `balances`, faregate_spend works as
-- before. Locks nothing.
DO $$
DECLARE
	given record;
	definition text := pg_get_functiondef('faregate_spend'::regproc);
BEGIN
	FOR given IN SELECT * FROM (VALUES
		('\), budgeted AS \(', '), moved AS (
		SELECT "contractId", "organizationId", budget, spender, used, held, since, "alertedThreshold", "alertedLimit", false AS keeps_alert
		FROM json_to_recordset(balances) AS given
			("contractId" text, "organizationId" text, budget text, spender text, used numeric, held numeric, since float8,
				"alertedThreshold" integer, "alertedLimit" numeric)
		WHERE written IS NULL OR "contractId" = ANY (written)
		UNION ALL
		SELECT "contractId", "organizationId", part ->> 0, part ->> 1, sum((part ->> 2)::numeric), 0, max((part ->> 3)::float8), null, null, true
		FROM change CROSS JOIN LATERAL json_array_elements(budgets) AS part
		WHERE balances IS NULL GROUP BY 1, 2, 3, 4
	), budgeted AS ('),
		('to_timestamp\(given.since / 1000\), "alertedThreshold", "alertedLimit"\s+FROM json_to_recordset\(balances\) AS given\s+\([^()]*\)',
			'to_timestamp(given.since / 1000),
			CASE WHEN NOT keeps_alert THEN "alertedThreshold" WHEN b.since = to_timestamp(given.since / 1000) THEN b.alerted_threshold END,
			CASE WHEN NOT keeps_alert THEN "alertedLimit" WHEN b.since = to_timestamp(given.since / 1000) THEN b.alerted_limit END
		FROM moved AS given'),
		('WHERE \(written IS NULL OR "contractId" = ANY \(written\)\) AND NOT EXISTS \(SELECT FROM missing\)\s+ON CONFLICT',
			'WHERE NOT EXISTS (SELECT FROM missing)
		ON CONFLICT')
	) AS given (before, after) LOOP
		IF (SELECT count(*) FROM regexp_matches(definition, given.before, 'g')) <> 1 THEN
			RAISE EXCEPTION 'faregate_spend does not have % once', given.before;
		END IF;
		definition := regexp_replace(definition, given.before, given.after);
	END LOOP;
	EXECUTE definition;
END $$;
