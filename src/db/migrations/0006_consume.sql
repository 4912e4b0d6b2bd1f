-- One function is replaced by one that answers the same; it locks nothing.
--
-- Counts granted use of many contracts: see db/consumption.ts. A contract's stamp is the row versions of the contract and
-- of its levels, in the order of (position, service_id): when it is still the one that the caller decided on, nothing about
-- the contract can have changed since. Each statement here sees what was committed before it began, so what is read after
-- the lock is what the lock protects. Answers a letter a contract, (b)usy, (u)nchanged and counted or (c)hanged, and the
-- row version of the levels that changed.
--
-- What one contract takes is short statements by primary key: setting up the plan for many took longer than running it.
CREATE OR REPLACE FUNCTION faregate_consume(
	contract_ids text[], stamps text[], moving text[], movements json, moment timestamptz
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
-- Planned once a session.
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	held text[];
	contract text := contract_ids[1];
	stamp_now text;
	movement record;
BEGIN
	IF cardinality(contract_ids) = 1 AND json_array_length(movements) <= 4 THEN
		SELECT c.xmin::text INTO stamp_now FROM contracts c WHERE c.id = contract FOR NO KEY UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			outcomes := 'b';
			RETURN NEXT;
			RETURN;
		END IF;
		SELECT stamp_now || coalesce(string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C"), '')
			INTO stamp_now FROM usage_levels u WHERE u.contract_id = contract;
		IF stamp_now <> stamps[1] THEN
			outcomes := 'c';
			RETURN NEXT;
			RETURN;
		END IF;
		FOR movement IN SELECT * FROM json_to_recordset(movements) AS given
			("serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
		LOOP
			INSERT INTO usage_ledger
				(contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
			VALUES (contract, movement."serviceId", movement."limitName", 'consume', movement."featureId",
				movement."operationId", movement.amount, moment);
			UPDATE usage_levels u SET consumed = u.consumed + movement.amount
			WHERE u.contract_id = contract AND u.service_id = movement."serviceId" AND u.limit_name = movement."limitName";
		END LOOP;
		outcomes := 'u';
		transaction := pg_current_xact_id_if_assigned()::xid::text;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT coalesce(array_agg(locked.id), '{}') INTO held FROM unnest(moving) AS asked (id) CROSS JOIN LATERAL (
		SELECT c.id FROM contracts c WHERE c.id = asked.id FOR NO KEY UPDATE SKIP LOCKED
	) AS locked;
	RETURN QUERY
	WITH unchanged AS MATERIALIZED (
		SELECT asked.id
		FROM unnest(contract_ids, stamps) AS asked (id, stamp)
		-- OFFSET 0 keeps the planner from computing the stamps of all contracts there are.
		CROSS JOIN LATERAL (
			SELECT c.xmin::text || coalesce((
				SELECT string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C")
				FROM usage_levels u WHERE u.contract_id = c.id
			), '') AS stamp
			FROM contracts c WHERE c.id = asked.id OFFSET 0
		) AS found
		WHERE asked.stamp = found.stamp
	), movement AS MATERIALIZED (
		SELECT given.* FROM json_to_recordset(movements) AS given
			("contractId" text, "serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
		JOIN unchanged ON unchanged.id = "contractId"
		WHERE "contractId" = ANY (held)
	), written AS (
		INSERT INTO usage_ledger
			(contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
		SELECT "contractId", "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment
		FROM movement
	), counted AS (
		UPDATE usage_levels u SET consumed = u.consumed + m.amount
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
