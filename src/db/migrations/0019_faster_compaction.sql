-- A compaction reads its movements once, without the organizations of movements and without counting them first. Locks nothing.
--
-- As before in everything else, see 0003_ledger_partitions: stages one sum per balance beside the ledger. The size of the first
-- partition is estimated, and its old movements are counted up to an eighth of that. Sums take the organizations of contracts.
CREATE OR REPLACE FUNCTION faregate_stage_ledger(older_than timestamptz) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '1s' SET work_mem = '64MB' SET jit = off AS $$
DECLARE
	cutoff timestamptz := least(older_than, now() - interval '1 day');
	first_ends timestamptz;
	until timestamptz;
	settled bigint := (SELECT up_to FROM usage_rollup);
	total float8;
	old bigint;
	counts record;
BEGIN
	IF NOT pg_try_advisory_xact_lock(54030003) THEN
		RETURN false;
	ELSIF EXISTS (SELECT FROM usage_ledger_start WHERE staged_until IS NOT NULL) THEN
		RETURN true;
	END IF;
	SELECT min(p.ends), max(p.ends) FILTER (WHERE p.ends <= cutoff) INTO first_ends, until FROM faregate_ledger_partitions() p;
	IF first_ends > now() - interval '1 day' THEN
		RETURN false;
	ELSIF until IS NULL OR until = first_ends THEN
		until := first_ends;
		-- A table that was never analyzed has -1 rows; a movement takes about 100 bytes.
		SELECT CASE WHEN c.reltuples < 0 THEN pg_relation_size(c.oid) / 100 ELSE c.reltuples END INTO total
		FROM faregate_ledger_partitions() p JOIN pg_class c ON c.oid = p.part WHERE p.ends = first_ends;
		EXECUTE format('SELECT count(*) FROM (
				SELECT FROM usage_ledger WHERE created_at < %L AND created_at < %L AND NOT (kind = ''adjust'' AND operation_id = ''carried'')
				LIMIT %s
			) l', until, cutoff, ceil(greatest(total / 8, 1))::bigint) INTO old;
		IF old = 0 OR total > 100000 AND old < total / 8 THEN
			RETURN false;
		END IF;
	END IF;
	-- The swap adds them while writers wait.
	EXECUTE format('SELECT count(*) AS late FROM (
		SELECT FROM usage_ledger WHERE created_at < %L AND id > %L LIMIT 50001) l', until, settled) INTO counts;
	IF counts.late > 50000 THEN
		RETURN false;
	END IF;
	CREATE TABLE usage_ledger_staged (LIKE usage_ledger INCLUDING ALL);
	ALTER TABLE usage_ledger_staged REPLICA IDENTITY FULL;
	PERFORM faregate_close_table('usage_ledger_staged');
	-- Carried sums are few: an index finds them. Those of the ledger before partitions are younger than the newest movement.
	EXECUTE format('WITH summed AS MATERIALIZED (
			SELECT contract_id, service_id, limit_name, sum(delta) AS delta, max(created_at) AS created_at, count(*) AS movements,
				max(created_at) FILTER (WHERE NOT (kind = ''adjust'' AND operation_id = ''carried'')) AS latest
			FROM usage_ledger WHERE created_at < %1$L AND id <= %2$L %3$s
			GROUP BY contract_id, service_id, limit_name
		), staged AS (
			INSERT INTO usage_ledger_staged
				(id, contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
			SELECT 0, s.contract_id, c.organization_id, s.service_id, s.limit_name, ''adjust'', ''carried'', s.delta, s.created_at
			FROM summed s JOIN contracts c ON c.id = s.contract_id
			WHERE s.delta <> 0 ORDER BY s.contract_id, s.service_id, s.limit_name
		)
		SELECT sum(movements) - (
				SELECT count(*) FROM usage_ledger
				WHERE created_at < %1$L AND id <= %2$L AND kind = ''adjust'' AND operation_id = ''carried''
			) AS movements, max(latest) AS latest
		FROM summed', until, settled,
		CASE WHEN until > cutoff THEN
			format('AND (created_at < %L OR kind = ''adjust'' AND operation_id = ''carried'')', cutoff) ELSE '' END) INTO counts;
	IF until > cutoff THEN
		EXECUTE format('INSERT INTO usage_ledger_staged SELECT * FROM usage_ledger
			WHERE created_at < %L AND created_at >= %L AND id <= %L AND NOT (kind = ''adjust'' AND operation_id = ''carried'')
			ORDER BY id', until, cutoff, settled);
	END IF;
	EXECUTE format('ALTER TABLE usage_ledger_staged ADD CONSTRAINT usage_ledger_bound CHECK (created_at < %L)', until);
	UPDATE usage_ledger_start SET staged_until = until, staged_cutoff = cutoff, staged_up_to = settled,
		staged_latest = counts.latest, staged_movements = coalesce(counts.movements, 0);
	DROP TABLE "usage_ledger_next";
	ALTER TABLE "usage_ledger_staged" RENAME TO usage_ledger_next;
	RETURN true;
END $$;
