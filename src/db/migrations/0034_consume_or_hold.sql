-- Locks nothing: one function is added. What ran before this migration goes on beside it with faregate_consume_and_hold.
--
-- Counts granted use, takes holds and ends them, in one statement for all balances that change; faregate_consume, which does only
-- the first, is faster where nothing is held. Each contract only if its stamp is the one given; `outcomes` has a letter for each, as
-- there. Moments in JSON are milliseconds since 1970, which are faster to write and to read than text. Fails with FH001, and the
-- ids in its message, if a hold to end has ended or was extended: the caller decided on what is no longer so.
CREATE FUNCTION faregate_consume_or_hold(
	contract_ids text[], stamps text[], moving text[], changes json, ends json, takes json, moment timestamptz
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
-- Planned once a session, maybe while the tables are empty.
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	locked text[];
	-- Contracts to write, or null for all of them.
	written text[];
	missed text;
BEGIN
	SELECT coalesce(array_agg(c.id), '{}') INTO locked FROM unnest(moving) AS asked (id) CROSS JOIN LATERAL (
		SELECT c.id FROM contracts c WHERE c.id = asked.id FOR NO KEY UPDATE SKIP LOCKED
	) AS c;
	SELECT string_agg(CASE
			WHEN asked.id = ANY (moving) AND NOT asked.id = ANY (locked) THEN 'b'
			WHEN asked.stamp = (
				SELECT c.xmin::text || coalesce((
					SELECT string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C")
					FROM usage_levels u WHERE u.contract_id = c.id
				), '')
				FROM contracts c WHERE c.id = asked.id
			) THEN 'u'
			ELSE 'c'
		END, '' ORDER BY asked.place)
		INTO outcomes FROM unnest(contract_ids, stamps) WITH ORDINALITY AS asked (id, stamp, place);
	IF outcomes ~ '[bc]' THEN
		SELECT coalesce(array_agg(asked.id), '{}') INTO written
		FROM unnest(contract_ids, string_to_array(outcomes, NULL)) AS asked (id, outcome) WHERE asked.outcome = 'u';
	END IF;
	WITH change AS MATERIALIZED (
		SELECT * FROM json_to_recordset(changes) AS given
			("contractId" text, "organizationId" text, "serviceId" text, "limitName" text, "featureId" text, "operationId" text,
				amount numeric, held numeric, "openHolds" integer, "holdDue" float8)
		WHERE written IS NULL OR "contractId" = ANY (written)
	), movement AS (
		INSERT INTO usage_ledger
			(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
		SELECT "contractId", "organizationId", "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment
		FROM change WHERE amount IS NOT NULL
	), given AS MATERIALIZED (
		SELECT * FROM json_to_recordset(ends) AS given
			(id text, "contractId" text, until float8, state text, counted json)
		WHERE written IS NULL OR "contractId" = ANY (written)
	), ended AS (
		-- No partial index proves this condition on the state: a session that planned while few holds were open would read all of them.
		UPDATE holds h SET state = given.state, ended_at = moment, counted = nullif(given.counted::text, 'null')::json
		FROM given WHERE h.id = given.id AND h.until = to_timestamp(given.until / 1000) AND h.state IS NOT DISTINCT FROM 'open'
		RETURNING h.id
	), missing AS MATERIALIZED (
		SELECT id FROM given WHERE id NOT IN (SELECT id FROM ended)
	), balance AS (
		UPDATE usage_levels u SET
			consumed = u.consumed + c.amount, held = u.held + c.held, open_holds = u.open_holds + c.holds,
			hold_due = CASE WHEN u.open_holds + c.holds > 0 THEN least(u.hold_due, c.due) END
		FROM (
			SELECT "contractId", "serviceId", "limitName", coalesce(sum(amount), 0) AS amount, coalesce(sum(held), 0) AS held,
				coalesce(sum("openHolds"), 0) AS holds, to_timestamp(min("holdDue") / 1000) AS due
			-- With a hold missing, a balance could fall below zero, and fail with another error than FH001.
			FROM change WHERE NOT EXISTS (SELECT FROM missing) GROUP BY 1, 2, 3
		) c
		WHERE u.contract_id = c."contractId" AND u.service_id = c."serviceId" AND u.limit_name = c."limitName"
	), taken AS (
		INSERT INTO holds (id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until)
		SELECT id, "contractId", "organizationId", "featureId", amounts, "onExpiry", 'open', moment, to_timestamp(until / 1000)
		FROM json_to_recordset(takes) AS given
			(id text, "contractId" text, "organizationId" text, "featureId" text, "onExpiry" text, until float8, amounts json)
		WHERE written IS NULL OR "contractId" = ANY (written)
	)
	SELECT string_agg(id, ',') INTO missed FROM missing;
	IF missed IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'FH001', MESSAGE = missed;
	END IF;
	transaction := pg_current_xact_id_if_assigned()::xid::text;
	RETURN NEXT;
END $$;
