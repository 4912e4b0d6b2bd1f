-- ACCESS EXCLUSIVE on "holds" and "contracts" for a moment. The key looked the contract up and locked it again for each hold,
-- though nobody takes one who does not hold the contract already. What ran before this migration goes on beside it.
ALTER TABLE "holds" DROP CONSTRAINT "holds_contract_fk";
--> statement-breakpoint
-- What the key did when a contract goes.
CREATE FUNCTION faregate_remove_holds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM holds WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_holds AFTER DELETE ON contracts FOR EACH ROW EXECUTE FUNCTION faregate_remove_holds();
--> statement-breakpoint
-- Ends open holds, counts amounts of them, and takes holds: see db/queries/holds.ts. Returns the ids of holds to end that were
-- not open, separated by commas; null if there are none. Of these contracts only, of all without a list. Planned once a
-- session, and always by index: the table may have been empty then.
CREATE FUNCTION faregate_change_holds(ends json, takes json, of_contracts text[]) RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	missed text;
BEGIN
	IF ends IS NOT NULL THEN
		WITH given AS MATERIALIZED (
			SELECT g.* FROM json_to_recordset(ends) AS g
				(id text, "contractId" text, "featureId" text, state text, "endedAt" timestamptz, counted json, amounts json)
			WHERE of_contracts IS NULL OR g."contractId" = ANY (of_contracts)
		), ended AS (
			UPDATE holds h SET state = g.state, ended_at = g."endedAt", counted = nullif(g.counted::text, 'null')::json
			FROM given g WHERE h.id = g.id AND h.state = 'open'
			RETURNING h.id, g."contractId", g."featureId", g."endedAt", g.amounts
		), amount AS MATERIALIZED (
			SELECT ended.id, ended."contractId", ended."featureId", ended."endedAt", a.*
			FROM ended CROSS JOIN LATERAL json_to_recordset(ended.amounts) AS a
				("serviceId" text, "limitName" text, amount numeric, counted numeric)
		), written AS (
			INSERT INTO usage_ledger
				(contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
			SELECT "contractId", "serviceId", "limitName", 'consume', "featureId", id, counted, "endedAt"
			FROM amount WHERE counted > 0 ORDER BY "endedAt", id
		), changed AS (
			UPDATE usage_levels u SET
				consumed = u.consumed + m.counted, held = u.held - m.amount, open_holds = u.open_holds - m.holds,
				hold_due = CASE WHEN u.open_holds > m.holds THEN u.hold_due END
			FROM (
				SELECT "contractId", "serviceId", "limitName", sum(amount.amount) AS amount, sum(counted) AS counted, count(*) AS holds
				FROM amount GROUP BY 1, 2, 3
			) m
			WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName"
		)
		SELECT string_agg(given.id, ',') INTO missed FROM given
		WHERE NOT EXISTS (SELECT FROM ended WHERE ended.id = given.id);
	END IF;
	IF takes IS NOT NULL THEN
		WITH given AS MATERIALIZED (
			SELECT g.* FROM json_to_recordset(takes) AS g
				(id text, "contractId" text, "featureId" text, "onExpiry" text, "createdAt" timestamptz, until timestamptz, amounts json)
			WHERE of_contracts IS NULL OR g."contractId" = ANY (of_contracts)
		), written AS (
			INSERT INTO holds (id, contract_id, feature_id, amounts, on_expiry, state, created_at, until)
			SELECT id, "contractId", "featureId", amounts, "onExpiry", 'open', "createdAt", until FROM given
		)
		UPDATE usage_levels u SET
			held = u.held + m.amount, open_holds = u.open_holds + m.holds, hold_due = least(u.hold_due, m.due)
		FROM (
			SELECT g."contractId", a."serviceId", a."limitName", sum(a.amount) AS amount, count(*) AS holds, min(g.until) AS due
			FROM given g CROSS JOIN LATERAL json_to_recordset(g.amounts) AS a ("serviceId" text, "limitName" text, amount numeric)
			GROUP BY 1, 2, 3
		) m
		WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName";
	END IF;
	RETURN missed;
END $$;
--> statement-breakpoint
-- Counts granted use as faregate_consume does, and ends and takes holds of the contracts that it counts. Fails with FH001, and
-- the ids in its message, if a hold to end was not open: the caller decided on what is no longer so.
CREATE FUNCTION faregate_consume_and_hold(
	contract_ids text[], stamps text[], moving text[], movements json, moment timestamptz, ends json, takes json
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	counted text[];
	missed text;
BEGIN
	SELECT c.outcomes, c.transaction INTO outcomes, transaction
	FROM faregate_consume(contract_ids, stamps, moving, movements, moment) AS c;
	SELECT coalesce(array_agg(asked.id), '{}') INTO counted
	FROM unnest(contract_ids, string_to_array(outcomes, NULL)) AS asked (id, outcome) WHERE asked.outcome = 'u';
	missed := faregate_change_holds(ends, takes, counted);
	IF missed IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'FH001', MESSAGE = missed;
	END IF;
	RETURN NEXT;
END $$;
