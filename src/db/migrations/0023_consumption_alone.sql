-- Whoever changes a balance or its limit writes the tenths, too: the trigger that did took a tenth of the time of each consumption. A process
-- of the release before leaves them as they are until the balance moves again, and lists of contracts near a limit with them. And a
-- contract that consumes alone has a function with plain arguments. Locks usage_levels for milliseconds.
DROP TRIGGER usage_levels_inserted_tenths ON usage_levels;--> statement-breakpoint
DROP TRIGGER usage_levels_updated_tenths ON usage_levels;--> statement-breakpoint
-- contract: 0.1.0 was the last to have triggers that call it
DROP FUNCTION faregate_keep_used_tenths();
--> statement-breakpoint
DO $$
DECLARE
	given record;
	definition text;
BEGIN
	FOR given IN SELECT * FROM (VALUES
		('faregate_change_holds', 'consumed = u.consumed + m.counted,'),
		('faregate_consume_or_hold', 'consumed = u.consumed + c.amount,'),
		('faregate_spend', 'consumed = u.consumed + c.amount,')
	) AS given (name, sets) LOOP
		definition := pg_get_functiondef(given.name::regproc);
		IF strpos(definition, given.sets) = 0 THEN
			RAISE EXCEPTION '% does not change balances as expected', given.name;
		END IF;
		EXECUTE replace(definition, given.sets,
			regexp_replace(given.sets, 'consumed = (.+),', '\& used_tenths = faregate_used_tenths(\1, u.limit_value),'));
	END LOOP;
END $$;
--> statement-breakpoint
-- As in the first migration, without the path for one contract.
CREATE OR REPLACE FUNCTION faregate_consume(
	contract_ids text[], stamps text[], moving text[], movements json, moment timestamptz
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
-- Planned once a session.
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	held text[];
BEGIN
	SELECT coalesce(array_agg(locked.id), '{}') INTO held FROM unnest(moving) AS asked (id) CROSS JOIN LATERAL (
		SELECT c.id FROM contracts c WHERE c.id = asked.id FOR NO KEY UPDATE SKIP LOCKED
	) AS locked;
	RETURN QUERY
	WITH unchanged AS MATERIALIZED (
		SELECT asked.id, found.organization_id
		FROM unnest(contract_ids, stamps) AS asked (id, stamp)
		-- OFFSET 0 keeps the planner from computing the stamps of all contracts there are.
		CROSS JOIN LATERAL (
			SELECT c.organization_id, c.xmin::text || coalesce((
				SELECT string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C")
				FROM usage_levels u WHERE u.contract_id = c.id
			), '') AS stamp
			FROM contracts c WHERE c.id = asked.id OFFSET 0
		) AS found
		WHERE asked.stamp = found.stamp
	), movement AS MATERIALIZED (
		SELECT given.*, unchanged.organization_id FROM json_to_recordset(movements) AS given
			("contractId" text, "serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
		JOIN unchanged ON unchanged.id = "contractId"
		WHERE "contractId" = ANY (held)
	), written AS (
		INSERT INTO usage_ledger
			(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
		SELECT "contractId", organization_id, "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment
		FROM movement
	), counted AS (
		UPDATE usage_levels u SET consumed = u.consumed + m.amount,
			used_tenths = faregate_used_tenths(u.consumed + m.amount, u.limit_value)
		FROM (
			SELECT "contractId", "serviceId", "limitName", sum(amount) AS amount FROM movement GROUP BY 1, 2, 3
		) m
		WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName"
	)
	SELECT string_agg(
			CASE
				WHEN asked.id = ANY (moving) AND NOT asked.id = ANY (held) THEN 'b'
				WHEN asked.id IN (SELECT id FROM unchanged) THEN 'u'
				ELSE 'c'
			END, '' ORDER BY asked.place),
		pg_current_xact_id_if_assigned()::xid::text
	FROM unnest(contract_ids) WITH ORDINALITY AS asked (id, place);
END $$;
--> statement-breakpoint
-- Does for one contract what faregate_consume does for many, whose plan takes longer to set up than to run. The first movement has plain
-- arguments, because reading JSON takes a tenth of a consumption; `others` are those after it. Returns the letter of the contract,
-- and after a u the row version of the levels that changed.
CREATE FUNCTION faregate_consume_one(
	contract text, stamp text, service text, usage_limit text, amount numeric, feature text, operation text, others json,
	moment timestamptz
) RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	organization text;
	stamp_now text;
	place integer := 0;
BEGIN
	SELECT c.organization_id, c.xmin::text INTO organization, stamp_now
	FROM contracts c WHERE c.id = contract FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN 'b';
	END IF;
	SELECT stamp_now || coalesce(string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C"), '')
		INTO stamp_now FROM usage_levels u WHERE u.contract_id = contract;
	IF stamp_now <> stamp THEN
		RETURN 'c';
	END IF;
	LOOP
		INSERT INTO usage_ledger
			(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
		VALUES (contract, organization, service, usage_limit, 'consume', feature, operation, amount, moment);
		UPDATE usage_levels u SET consumed = u.consumed + amount,
			used_tenths = faregate_used_tenths(u.consumed + amount, u.limit_value)
		WHERE u.contract_id = contract AND u.service_id = service AND u.limit_name = usage_limit;
		EXIT WHEN others IS NULL OR place = json_array_length(others);
		SELECT "serviceId", "limitName", given.amount, "featureId", "operationId"
			INTO service, usage_limit, amount, feature, operation
		FROM json_to_record(others -> place) AS given
			("serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text);
		place := place + 1;
	END LOOP;
	RETURN 'u' || pg_current_xact_id_if_assigned()::xid::text;
END $$;
