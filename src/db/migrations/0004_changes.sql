-- Triggers and functions only: what ran before this migration goes on working beside it.
--
-- What processes keep in memory must leave it when it changes, whoever changes it: so the tables themselves announce it.
-- Channel and payloads are read in db/changes.ts. Consumption touches none of these rows, and a NOTIFY takes a lock of the
-- whole server until the commit: rows that are only added announce nothing, because nobody keeps what was not there.
CREATE FUNCTION faregate_announce_contracts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM changed LIMIT 101) AS counted) > 100 THEN
		PERFORM pg_notify('faregate_changes', 'contracts');
	ELSIF TG_TABLE_NAME = 'contracts' THEN
		PERFORM pg_notify('faregate_changes', 'contract ' || (to_json(changed)->>'id')) FROM changed;
	ELSE
		PERFORM pg_notify('faregate_changes', 'contract ' || (to_json(changed)->>'contract_id')) FROM changed;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION faregate_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('faregate_changes', TG_ARGV[0]);
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_updated AFTER UPDATE ON contracts REFERENCING NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce_contracts();
--> statement-breakpoint
CREATE TRIGGER contracts_deleted AFTER DELETE ON contracts REFERENCING OLD TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce_contracts();
--> statement-breakpoint
CREATE TRIGGER contract_services_updated AFTER UPDATE ON contract_services REFERENCING NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce_contracts();
--> statement-breakpoint
CREATE TRIGGER contract_services_deleted AFTER DELETE ON contract_services REFERENCING OLD TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce_contracts();
--> statement-breakpoint
CREATE TRIGGER services_changed AFTER UPDATE OR DELETE ON services
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('contracts');
--> statement-breakpoint
-- Writing down when a key was last used changes nothing about it.
CREATE TRIGGER organization_keys_updated AFTER UPDATE ON organization_keys FOR EACH ROW
	WHEN (to_jsonb(OLD) - 'last_used_at' IS DISTINCT FROM to_jsonb(NEW) - 'last_used_at')
	EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
CREATE TRIGGER organization_keys_deleted AFTER DELETE ON organization_keys
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
CREATE TRIGGER users_updated AFTER UPDATE ON users FOR EACH ROW
	WHEN (to_jsonb(OLD) - 'api_key_last_used_at' IS DISTINCT FROM to_jsonb(NEW) - 'api_key_last_used_at')
	EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
CREATE TRIGGER users_deleted AFTER DELETE ON users
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
-- Counts granted use of many contracts in one statement: see db/consumption.ts. A contract's stamp is the row versions of
-- the contract and of its levels, in the order of (position, service_id): when it is still the one that the caller decided
-- on, nothing about the contract can have changed since. Each statement here sees what was committed before it began, so
-- what is read after the lock is what the lock protects. Answers a letter a contract, (b)usy, (u)nchanged and counted or
-- (c)hanged, and the row version of the levels that changed.
CREATE FUNCTION faregate_consume(
	contract_ids text[], stamps text[], moving text[], movements json, moment timestamptz
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
-- Planned once a session: planning three statements each time took longer than running them.
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	held text[];
	unchanged text[];
BEGIN
	SELECT coalesce(array_agg(locked.id), '{}') INTO held FROM (
		SELECT id FROM contracts WHERE id = ANY (moving) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
	) AS locked;
	-- OFFSET 0 keeps the planner from computing the stamps of all contracts there are.
	SELECT coalesce(array_agg(asked.id), '{}') INTO unchanged
	FROM unnest(contract_ids, stamps) AS asked (id, stamp)
	CROSS JOIN LATERAL (
		SELECT c.xmin::text || coalesce((
			SELECT string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C")
			FROM usage_levels u WHERE u.contract_id = c.id
		), '') AS stamp
		FROM contracts c WHERE c.id = asked.id OFFSET 0
	) AS found
	WHERE asked.stamp = found.stamp;
	IF movements IS NOT NULL THEN
		WITH movement AS MATERIALIZED (
			SELECT * FROM json_to_recordset(movements) AS given
				("contractId" text, "serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
			WHERE "contractId" = ANY (held) AND "contractId" = ANY (unchanged)
		), written AS (
			INSERT INTO usage_ledger
				(contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
			SELECT "contractId", "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment
			FROM movement
		)
		UPDATE usage_levels u SET consumed = u.consumed + m.amount
		FROM (
			SELECT "contractId", "serviceId", "limitName", sum(amount) AS amount FROM movement GROUP BY 1, 2, 3
		) m
		WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName";
	END IF;
	RETURN QUERY SELECT string_agg(
			CASE
				WHEN asked.id = ANY (moving) AND NOT asked.id = ANY (held) THEN 'b'
				WHEN asked.id = ANY (unchanged) THEN 'u'
				ELSE 'c'
			END, '' ORDER BY asked.place),
		pg_current_xact_id_if_assigned()::xid::text
	FROM unnest(contract_ids) WITH ORDINALITY AS asked (id, place);
END $$;
