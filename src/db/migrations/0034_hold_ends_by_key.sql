-- One function is replaced by one that answers the same; it locks nothing.
--
-- Holds to end were found in the index of open holds if that was small when the session planned: each settlement then read all
-- open holds of the instance.
CREATE OR REPLACE FUNCTION faregate_change_holds(ends json, takes json, of_contracts text[]) RETURNS text LANGUAGE plpgsql
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
			-- A condition that no partial index proves: reading all open holds is never the plan.
			UPDATE holds h SET state = g.state, ended_at = g."endedAt", counted = nullif(g.counted::text, 'null')::json
			FROM given g WHERE h.id = g.id AND h.state IS NOT DISTINCT FROM 'open'
			RETURNING h.id, g."contractId", h.organization_id, g."featureId", g."endedAt", g.amounts
		), amount AS MATERIALIZED (
			SELECT ended.id, ended."contractId", ended.organization_id, ended."featureId", ended."endedAt", a.*
			FROM ended CROSS JOIN LATERAL json_to_recordset(ended.amounts) AS a
				("serviceId" text, "limitName" text, amount numeric, counted numeric)
		), written AS (
			INSERT INTO usage_ledger
				(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
			SELECT "contractId", organization_id, "serviceId", "limitName", 'consume', "featureId", id, counted, "endedAt"
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
				(id text, "contractId" text, "organizationId" text, "featureId" text, "onExpiry" text, "createdAt" timestamptz,
					until timestamptz, amounts json)
			WHERE of_contracts IS NULL OR g."contractId" = ANY (of_contracts)
		), written AS (
			INSERT INTO holds (id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until)
			SELECT id, "contractId", "organizationId", "featureId", amounts, "onExpiry", 'open', "createdAt", until FROM given
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