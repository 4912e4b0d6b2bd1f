-- Partitions the ledger by time. Locks contracts and ledger exclusively for milliseconds: migrate() has validated the bound of
-- existing movements and has built their index before, see db/ledger-migration.ts.
LOCK TABLE contracts, usage_ledger IN ACCESS EXCLUSIVE MODE;--> statement-breakpoint
ALTER TABLE "usage_ledger_start" ADD COLUMN "staged_until" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "usage_ledger_start" ADD COLUMN "staged_cutoff" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "usage_ledger_start" ADD COLUMN "staged_up_to" bigint;--> statement-breakpoint
ALTER TABLE "usage_ledger_start" ADD COLUMN "staged_latest" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "usage_ledger_start" ADD COLUMN "staged_movements" bigint;--> statement-breakpoint
-- Takes every right on a table from all roles but its owner. Partitions are reached through the ledger, whose rights are append-only;
-- default privileges would let the server delete from a partition.
CREATE FUNCTION faregate_close_table(closed regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	given record;
BEGIN
	FOR given IN
		SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
		FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = closed AND a.grantee <> c.relowner
	LOOP
		EXECUTE format('REVOKE ALL ON TABLE %s FROM %s', closed, given.role);
	END LOOP;
END $$;
--> statement-breakpoint
-- The existing ledger becomes the first partition, up to the bound that migrate() has validated; an empty one begins anew. Rights on
-- the ledger stay as they are, columns included, because the release before continues to serve.
DO $$
DECLARE
	next_id bigint := (SELECT last_value + is_called::integer FROM usage_ledger_id_seq);
	bound timestamptz := (
		SELECT substring(pg_get_constraintdef(oid) FROM '''([^'']+)''')::timestamptz FROM pg_constraint
		WHERE conrelid = 'usage_ledger'::regclass AND conname = 'usage_ledger_bound' AND convalidated);
	is_empty boolean := NOT EXISTS (SELECT FROM usage_ledger);
	given record;
BEGIN
	ALTER TABLE usage_ledger ALTER COLUMN id DROP IDENTITY;
	EXECUTE format('CREATE SEQUENCE usage_ledger_id_seq START %s', next_id);
	ALTER TABLE usage_ledger RENAME TO usage_ledger_first;
	DROP TRIGGER usage_ledger_organization ON usage_ledger_first;
	ALTER INDEX usage_ledger_level_idx RENAME TO usage_ledger_first_level_idx;
	ALTER INDEX usage_ledger_zero_idx RENAME TO usage_ledger_first_zero_idx;
	CREATE TABLE usage_ledger (LIKE usage_ledger_first INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (created_at);
	ALTER TABLE usage_ledger ALTER COLUMN id SET DEFAULT nextval('usage_ledger_id_seq');
	ALTER TABLE usage_ledger ADD CONSTRAINT usage_ledger_kind_known
		CHECK (kind in ('consume', 'revert', 'adjust', 'reset', 'renew', 'remove', 'late'));
	ALTER SEQUENCE usage_ledger_id_seq OWNED BY usage_ledger.id;
	CREATE INDEX usage_ledger_level_idx ON usage_ledger (contract_id, service_id, limit_name, id);
	CREATE INDEX usage_ledger_id_idx ON usage_ledger (id);
	CREATE INDEX usage_ledger_zero_idx ON usage_ledger (contract_id, service_id, limit_name, created_at, id)
		WHERE kind in ('reset', 'renew', 'remove') or operation_id = 'carried';

	PERFORM faregate_close_table('usage_ledger');
	FOR given IN
		SELECT a.privilege_type AS privilege, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
		FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = 'usage_ledger_first'::regclass AND a.grantee <> c.relowner
	LOOP
		EXECUTE format('GRANT %s ON usage_ledger TO %s', given.privilege, given.role);
		IF given.privilege = 'INSERT' THEN
			EXECUTE format('GRANT USAGE, SELECT ON SEQUENCE usage_ledger_id_seq TO %s', given.role);
		END IF;
	END LOOP;
	FOR given IN
		SELECT p.attname AS name, a.privilege_type AS privilege, a.grantee::regrole AS role
		FROM pg_attribute p, aclexplode(p.attacl) a WHERE p.attrelid = 'usage_ledger_first'::regclass AND a.grantee <> 0
	LOOP
		EXECUTE format('GRANT %s (%I) ON usage_ledger TO %s', given.privilege, given.name, given.role);
	END LOOP;

	IF is_empty THEN
		DROP TABLE "usage_ledger_first";
		CREATE TABLE usage_ledger_first (LIKE usage_ledger INCLUDING ALL);
		bound := date_trunc('week', now(), 'UTC') - interval '7 days';
	ELSIF bound IS NULL THEN
		bound := date_trunc('week', greatest(now(), (SELECT max(created_at) FROM usage_ledger_first)), 'UTC') + interval '14 days';
	END IF;
	PERFORM faregate_close_table('usage_ledger_first');
	ALTER TABLE usage_ledger_first REPLICA IDENTITY FULL;
	EXECUTE format('ALTER TABLE usage_ledger ATTACH PARTITION usage_ledger_first FOR VALUES FROM (MINVALUE) TO (%L)', bound);
	ALTER TABLE usage_ledger_first DROP CONSTRAINT IF EXISTS usage_ledger_bound;
END $$;
--> statement-breakpoint
CREATE TRIGGER usage_ledger_organization BEFORE INSERT ON usage_ledger FOR EACH ROW WHEN (NEW.organization_id IS NULL)
	EXECUTE FUNCTION faregate_fill_organization('contract');
--> statement-breakpoint
-- Takes what no other partition does, so that no movement is refused. Empty unless no event server made partitions for a week.
CREATE TABLE usage_ledger_default PARTITION OF usage_ledger DEFAULT;--> statement-breakpoint
ALTER TABLE usage_ledger_default REPLICA IDENTITY FULL;--> statement-breakpoint
SELECT faregate_close_table('usage_ledger_default');--> statement-breakpoint
-- The next first partition, while a compaction is staged. Not a partition: what is in it is not in the ledger yet.
CREATE TABLE usage_ledger_next (LIKE usage_ledger INCLUDING ALL);--> statement-breakpoint
SELECT faregate_close_table('usage_ledger_next');--> statement-breakpoint
-- Partitions of the ledger, from the first to the last, and the default one, which has no bounds.
CREATE FUNCTION faregate_ledger_partitions() RETURNS TABLE (part regclass, begins timestamptz, ends timestamptz)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
	SELECT i.inhrelid::regclass,
		CASE WHEN bound <> 'DEFAULT' THEN coalesce(substring(bound FROM 'FROM \(''([^'']+)''')::timestamptz, '-infinity') END,
		substring(bound FROM 'TO \(''([^'']+)''')::timestamptz
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) bound
	WHERE i.inhparent = 'usage_ledger'::regclass ORDER BY 3
$$;
--> statement-breakpoint
-- Makes the partitions of the next week; each call takes one step, and returns false once there is nothing to do. A partition has a
-- week, or a day if the one before has more than a million movements per day: about ten million are summed up within a minute, and
-- every read looks into each of its partitions. Attaching blocks nobody but readers and writers of the empty default partition.
--
-- Movements of a time without event servers are in the default partition. It becomes the partition of that time, in three steps, so
-- that no writer waits while its bounds are validated.
CREATE FUNCTION faregate_make_partition(moment timestamptz) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '200ms' SET timezone = 'UTC' AS $$
DECLARE
	newest record;
	bound timestamptz;
	name text;
	bounded record;
BEGIN
	IF NOT pg_try_advisory_xact_lock(54030002) THEN
		RETURN false;
	END IF;
	SELECT p.part, p.begins, p.ends INTO newest FROM faregate_ledger_partitions() p WHERE p.ends IS NOT NULL
	ORDER BY p.ends DESC LIMIT 1;
	SELECT convalidated, substring(pg_get_constraintdef(oid) FROM '< ''([^'']+)''')::timestamptz AS until INTO bounded
	FROM pg_constraint WHERE conrelid = 'usage_ledger_default'::regclass AND conname = 'usage_ledger_bound';
	name := 'usage_ledger_' || to_char(newest.ends, 'YYYYMMDD');
	IF NOT FOUND THEN
		IF EXISTS (SELECT FROM usage_ledger_default) THEN
			bound := date_trunc('day', greatest(moment, now(), (SELECT max(created_at) FROM usage_ledger_default))) + interval '8 days';
			EXECUTE format('ALTER TABLE usage_ledger_default ADD CONSTRAINT usage_ledger_bound
				CHECK (created_at >= %L AND created_at < %L) NOT VALID', newest.ends, bound);
			RETURN true;
		END IF;
	ELSIF NOT bounded.convalidated THEN
		ALTER TABLE usage_ledger_default VALIDATE CONSTRAINT usage_ledger_bound;
		RETURN true;
	ELSE
		LOCK TABLE ONLY usage_ledger IN ACCESS EXCLUSIVE MODE;
		ALTER TABLE usage_ledger DETACH PARTITION usage_ledger_default;
		EXECUTE format('ALTER TABLE "usage_ledger_default" RENAME TO %I', name);
		EXECUTE format('ALTER TABLE usage_ledger ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, newest.ends, bounded.until);
		EXECUTE format('ALTER TABLE %I DROP CONSTRAINT usage_ledger_bound', name);
		CREATE TABLE usage_ledger_default PARTITION OF usage_ledger DEFAULT;
		ALTER TABLE usage_ledger_default REPLICA IDENTITY FULL;
		PERFORM faregate_close_table('usage_ledger_default');
		RETURN true;
	END IF;
	IF newest.ends >= moment + interval '8 days' THEN
		RETURN false;
	END IF;
	-- The newest partition of which a day has passed, by its statistics.
	bound := newest.ends + CASE WHEN (
		SELECT c.reltuples > 1000000 * extract(epoch FROM least(moment, p.ends) - p.begins) / 86400
		FROM faregate_ledger_partitions() p JOIN pg_class c ON c.oid = p.part
		WHERE isfinite(p.begins) AND p.begins <= moment - interval '1 day' ORDER BY p.begins DESC LIMIT 1
	) THEN interval '1 day' ELSE interval '7 days' END;
	EXECUTE format('CREATE TABLE %I (LIKE usage_ledger INCLUDING ALL)', name);
	EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', name);
	PERFORM faregate_close_table(name::regclass);
	EXECUTE format('ALTER TABLE usage_ledger ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, newest.ends, bound);
	RETURN true;
END $$;
--> statement-breakpoint
DO $$ BEGIN WHILE faregate_make_partition(now()) LOOP END LOOP; END $$;
--> statement-breakpoint
-- Compaction, in two transactions. The first reads the partitions that ended before "older_than", and before the last day, and
-- stages one sum per balance beside the ledger, with the sum that the last compaction carried over. It blocks nobody, however long it
-- takes. Returns true if a compaction is staged.
--
-- The first partition may have younger movements, too: those of the ledger before it was partitioned, and strays. They are copied,
-- provided that nobody changes them any more, and that enough others go: the size of the partition is estimated, and its old movements
-- are counted up to an eighth of that. Reads movements once; sums take the organizations of contracts.
CREATE FUNCTION faregate_stage_ledger(older_than timestamptz) RETURNS boolean LANGUAGE plpgsql
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
	ALTER TABLE usage_ledger_staged RENAME TO usage_ledger_next;
	RETURN true;
END $$;
--> statement-breakpoint
-- The second transaction of a compaction: puts what is staged in the place of the partitions that it sums up, and drops those.
-- Returns the number of movements that went. Deletions and moves of contracts between the two change what is staged, too.
--
-- Locks the ledger exclusively for some milliseconds. Does not even wait while another transaction reads or writes the ledger for
-- longer, because every consumption would queue behind it: fails with SQLSTATE 55P03 and can be called again.
CREATE FUNCTION faregate_swap_ledger() RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '100ms' SET jit = off AS $$
DECLARE
	staged usage_ledger_start;
	gone regclass;
	locked regclass[];
	busy text[];
	here oid := (SELECT oid FROM pg_database WHERE datname = current_database());
	late bigint;
BEGIN
	IF NOT pg_try_advisory_xact_lock(54030003) THEN
		RETURN 0;
	END IF;
	SELECT * INTO STRICT staged FROM usage_ledger_start;
	IF staged.staged_until IS NULL THEN
		RETURN 0;
	END IF;
	-- Transactions that use the ledger now. Those that delete or move contracts may not have seen what is staged.
	locked := ARRAY(SELECT p.part FROM faregate_ledger_partitions() p WHERE p.ends <= staged.staged_until) || 'usage_ledger'::regclass;
	busy := ARRAY(SELECT virtualtransaction FROM pg_locks WHERE relation = ANY (locked) AND pid <> pg_backend_pid()
		AND database = here);
	FOR attempt IN 1..20 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pg_locks WHERE relation = ANY (locked) AND database = here AND virtualtransaction = ANY (busy));
		IF attempt = 20 THEN
			RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'a transaction holds the ledger';
		END IF;
		PERFORM pg_sleep(0.005);
	END LOOP;
	DELETE FROM usage_ledger_next n WHERE NOT EXISTS (SELECT FROM contracts c WHERE c.id = n.contract_id);
	UPDATE usage_ledger_next n SET organization_id = c.organization_id FROM contracts c
	WHERE c.id = n.contract_id AND n.organization_id <> c.organization_id;
	PERFORM faregate_keep_resets(staged.staged_until, staged.staged_cutoff, 0);

	LOCK TABLE ONLY usage_ledger IN ACCESS EXCLUSIVE MODE;
	EXECUTE format('SELECT count(*) FROM usage_ledger WHERE created_at < %L AND id > %L',
		staged.staged_until, staged.staged_up_to) INTO late;
	IF late > 0 THEN
		PERFORM faregate_keep_resets(staged.staged_until, staged.staged_cutoff, staged.staged_up_to);
		EXECUTE format('WITH late AS MATERIALIZED (
				SELECT *, kind = ''adjust'' AND operation_id = ''carried'' AS is_carried FROM usage_ledger
				WHERE created_at < %1$L AND id > %2$L
			), kept AS (
				INSERT INTO usage_ledger_next (id, contract_id, organization_id, service_id, limit_name, kind, feature_id,
					operation_id, delta, reset_at, created_at, reverted_at, used_at, late_amount, renamed_feature_id)
				SELECT id, contract_id, organization_id, service_id, limit_name, kind, feature_id,
					operation_id, delta, reset_at, created_at, reverted_at, used_at, late_amount, renamed_feature_id
				FROM late WHERE created_at >= %3$L AND NOT is_carried
			), summed AS MATERIALIZED (
				SELECT contract_id, max(organization_id) AS organization_id, service_id, limit_name, sum(delta) AS delta,
					max(created_at) AS created_at
				FROM late WHERE created_at < %3$L OR is_carried GROUP BY contract_id, service_id, limit_name
			), added AS (
				UPDATE usage_ledger_next n SET delta = n.delta + s.delta FROM summed s
				WHERE n.contract_id = s.contract_id AND n.service_id = s.service_id AND n.limit_name = s.limit_name AND n.id = 0
				RETURNING n.contract_id, n.service_id, n.limit_name
			), carried AS (
				INSERT INTO usage_ledger_next
					(id, contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
				SELECT 0, contract_id, organization_id, service_id, limit_name, ''adjust'', ''carried'', delta, created_at
				FROM summed WHERE delta <> 0 AND (contract_id, service_id, limit_name) NOT IN (SELECT * FROM added)
			)
			UPDATE usage_ledger_start SET staged_movements = staged_movements + m.movements, staged_latest = greatest(staged_latest, m.latest)
			FROM (
				SELECT count(*) AS movements, max(created_at) AS latest FROM late WHERE created_at < %3$L AND NOT is_carried
			) m', staged.staged_until, staged.staged_up_to, staged.staged_cutoff);
	END IF;
	FOR gone IN SELECT p.part FROM faregate_ledger_partitions() p WHERE p.ends <= staged.staged_until LOOP
		EXECUTE format('ALTER TABLE usage_ledger DETACH PARTITION %s', gone);
		EXECUTE format('DROP TABLE %s', gone);
	END LOOP;
	ALTER TABLE "usage_ledger_next" RENAME TO usage_ledger_first;
	EXECUTE format('ALTER TABLE usage_ledger ATTACH PARTITION usage_ledger_first FOR VALUES FROM (MINVALUE) TO (%L)',
		staged.staged_until);
	ALTER TABLE usage_ledger_first DROP CONSTRAINT usage_ledger_bound;
	CREATE TABLE usage_ledger_next (LIKE usage_ledger INCLUDING ALL);
	PERFORM faregate_close_table('usage_ledger_next');
	SELECT * INTO STRICT staged FROM usage_ledger_start;
	UPDATE usage_ledger_start SET at = greatest(at, staged_latest), staged_until = NULL, staged_cutoff = NULL, staged_up_to = NULL,
		staged_latest = NULL, staged_movements = NULL;
	RETURN staged.staged_movements;
END $$;
--> statement-breakpoint
-- Records the newest reset moment of each balance whose movement is summed up, of those with ids above "newer_than".
CREATE FUNCTION faregate_keep_resets(until timestamptz, cutoff timestamptz, newer_than bigint) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
	EXECUTE format('INSERT INTO usage_resets (contract_id, organization_id, service_id, limit_name, at, reset_at)
		SELECT newest.contract_id, c.organization_id, newest.service_id, newest.limit_name, newest.created_at, newest.reset_at
		FROM (
			SELECT DISTINCT ON (contract_id, service_id, limit_name) contract_id, service_id, limit_name, created_at, reset_at
			FROM usage_ledger
			WHERE created_at < %L AND created_at < %L AND id > %L AND reset_at IS NOT NULL AND kind in (''reset'', ''renew'', ''remove'')
			ORDER BY contract_id, service_id, limit_name, id DESC
		) newest JOIN contracts c ON c.id = newest.contract_id FOR KEY SHARE OF c
		ON CONFLICT (contract_id, service_id, limit_name, organization_id) DO UPDATE SET at = excluded.at, reset_at = excluded.reset_at',
		until, cutoff, newer_than);
END $$;
--> statement-breakpoint
-- Event servers of the release before call this. Their compaction works on an unpartitioned ledger.
-- contract: 0.1.0 was the last to call it
CREATE OR REPLACE FUNCTION compact_usage_ledger(older_than timestamptz, batch integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	SELECT 0
$$;
--> statement-breakpoint
-- Deletes movements and sums with their contracts, all of a statement at once: each partition is looked into once. By index, however
-- many contracts there are. Waits for a batch of the roll-up that may be adding sums of these contracts, and blocks the next one until
-- the deletion has committed. Runs with its owner's rights, because the server itself may not delete there.
CREATE OR REPLACE FUNCTION faregate_remove_movements() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
	ids text[] := (SELECT array_agg(id) FROM previous);
BEGIN
	IF ids IS NULL THEN
		RETURN NULL;
	END IF;
	PERFORM 1 FROM usage_rollup FOR SHARE;
	DELETE FROM usage_ledger WHERE contract_id = ANY (ids);
	DELETE FROM usage_ledger_next WHERE contract_id = ANY (ids);
	DELETE FROM usage_hours WHERE contract_id = ANY (ids);
	DELETE FROM usage_days WHERE contract_id = ANY (ids);
	RETURN NULL;
END $$;
--> statement-breakpoint
-- A contract that moves while a compaction is staged takes its sums along. Only statements that set the organization fire it.
CREATE FUNCTION faregate_move_staged() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	UPDATE usage_ledger_next SET organization_id = NEW.organization_id WHERE contract_id = NEW.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_staged AFTER UPDATE OF organization_id ON contracts FOR EACH ROW
	WHEN (OLD.organization_id IS DISTINCT FROM NEW.organization_id) EXECUTE FUNCTION faregate_move_staged();
--> statement-breakpoint
DROP TRIGGER contracts_movements ON contracts;--> statement-breakpoint
CREATE TRIGGER contracts_movements AFTER DELETE ON contracts REFERENCING OLD TABLE AS previous
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_remove_movements();
--> statement-breakpoint
-- Levels of a contract's past state with their balances at that moment, for db/queries/contract-states.ts. Planned once a session:
-- planning for each partition took longer than running it. "oldest_hold" is below the id of each hold that may have been open.
CREATE FUNCTION faregate_levels_at(contract text, levels json, since timestamptz, moment timestamptz, oldest_hold text) RETURNS json
LANGUAGE plpgsql STABLE SET plan_cache_mode = 'force_generic_plan' SET jit = off AS $$
BEGIN
	RETURN (SELECT json_agg(json_build_object(
			'serviceId', s."serviceId", 'limitName', s."limitName", 'anchor', s.anchor, 'periodValue', s."periodValue",
			'periodUnit', s."periodUnit", 'consumed', greatest(0, coalesce(moved.sum, 0) + coalesce(carried.sum, 0)),
			'held', coalesce(held.sum, 0),
			-- A reset of the level's own moment may be written after a later state, which still has that moment.
			'resetAt', CASE WHEN s."resetAt" IS NOT NULL AND coalesce(zero.created_at, gone.at) >= least(since, s."resetAt")
				THEN coalesce(zero.reset_at, gone.reset_at, s."resetAt") ELSE s."resetAt" END) ORDER BY s.place)
		FROM ROWS FROM (json_to_recordset(levels) AS ("serviceId" text, "limitName" text, "resetAt" timestamptz,
			anchor timestamptz, "periodValue" numeric, "periodUnit" text)) WITH ORDINALITY
			AS s ("serviceId", "limitName", "resetAt", anchor, "periodValue", "periodUnit", place)
		LEFT JOIN LATERAL (
			SELECT l.id, l.reset_at, l.created_at FROM usage_ledger l
			WHERE l.contract_id = contract AND l.service_id = s."serviceId" AND l.limit_name = s."limitName"
				AND l.kind IN ('reset', 'renew', 'remove') AND l.created_at <= moment ORDER BY l.created_at DESC, l.id DESC LIMIT 1
		) zero ON TRUE
		LEFT JOIN usage_resets gone ON zero.id IS NULL AND gone.contract_id = contract
			AND gone.service_id = s."serviceId" AND gone.limit_name = s."limitName"
		LEFT JOIN LATERAL (
			SELECT l.id FROM usage_ledger l
			WHERE l.contract_id = contract AND l.service_id = s."serviceId" AND l.limit_name = s."limitName"
				AND l.kind IN ('reset', 'renew', 'remove') AND l.created_at > moment ORDER BY l.created_at, l.id LIMIT 1
		) next_zero ON TRUE
		LEFT JOIN LATERAL (
			SELECT sum(l.delta) AS sum FROM usage_ledger l
			WHERE l.contract_id = contract AND l.service_id = s."serviceId" AND l.limit_name = s."limitName"
				AND l.id > coalesce(zero.id, 0) AND l.id < coalesce(next_zero.id, 9223372036854775807)
				AND l.created_at <= moment AND NOT (l.kind = 'adjust' AND l.operation_id = 'carried')
				-- For partitions: the clocks of processes differ by less than a day.
				AND l.created_at >= coalesce(zero.created_at - interval '1 day', '-infinity')
		) moved ON TRUE
		-- Compacted sums precede all retained movements, whatever their created_at.
		LEFT JOIN LATERAL (
			SELECT sum(l.delta) AS sum FROM usage_ledger l
			WHERE l.contract_id = contract AND l.service_id = s."serviceId" AND l.limit_name = s."limitName"
				AND l.kind = 'adjust' AND l.operation_id = 'carried' AND zero.id IS NULL
		) carried ON TRUE
		LEFT JOIN LATERAL (
			SELECT sum(a.amount) AS sum
			FROM holds h CROSS JOIN LATERAL json_to_recordset(h.amounts) AS a ("serviceId" text, "limitName" text, amount numeric)
			WHERE h.contract_id = contract AND h.id >= oldest_hold AND h.created_at <= moment AND h.until > moment
				AND coalesce(h.ended_at > moment, TRUE) AND h.kind = 'hold'
				AND a."serviceId" = s."serviceId" AND a."limitName" = s."limitName"
		) held ON TRUE
	);
END $$;
--> statement-breakpoint
REVOKE ALL ON FUNCTION faregate_close_table(regclass), faregate_make_partition(timestamptz), faregate_stage_ledger(timestamptz),
	faregate_swap_ledger(), faregate_keep_resets(timestamptz, timestamptz, bigint) FROM PUBLIC;
