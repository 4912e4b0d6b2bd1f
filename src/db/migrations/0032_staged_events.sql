-- A new table and two functions. On "outbox_counter", one row, columns with constant defaults: ACCESS EXCLUSIVE for a moment. What
-- ran before this migration goes on beside it: its writers wait for the counter as before, and its event servers read staged
-- events once a process of this version has numbered them.
CREATE TABLE "outbox_staged" (
	"seq" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "outbox_staged_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"organization_id" text,
	"code" text NOT NULL,
	"details" json NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "outbox_counter" ADD COLUMN "settled_seq" bigint DEFAULT 1 NOT NULL;--> statement-breakpoint
ALTER TABLE "outbox_counter" ADD COLUMN "settling_seq" bigint DEFAULT 1 NOT NULL;--> statement-breakpoint
ALTER TABLE "outbox_counter" ADD COLUMN "settling_until" "xid8" DEFAULT '0' NOT NULL;--> statement-breakpoint
-- The first value of a sequence leaves last_value as it was: use it up.
SELECT nextval('outbox_staged_seq_seq');--> statement-breakpoint
-- Writers compare last_value with settled_seq, under whatever role the server has.
GRANT SELECT ON SEQUENCE "outbox_staged_seq_seq" TO PUBLIC;--> statement-breakpoint
-- Records events in the caller's transaction, see db/queries/outbox.ts. Returns the id of the last; null if they are staged.
-- While a staged event may lack its id, an id taken now could overtake that of an earlier event of the same contract. The
-- sequence says so at the cost of one look-up: looking for staged rows would read all those that vacuum has not removed yet.
CREATE FUNCTION faregate_record_events(events json) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	last bigint;
BEGIN
	SELECT last_id INTO last FROM outbox_counter WHERE settled_seq = (SELECT last_value FROM outbox_staged_seq_seq)
	FOR NO KEY UPDATE SKIP LOCKED;
	IF FOUND THEN
		INSERT INTO outbox (id, organization_id, code, details)
		SELECT last + 1 + position, organization_id, code, details FROM json_to_recordset(events)
			AS given (position integer, organization_id text, code text, details json);
		UPDATE outbox_counter SET last_id = last + json_array_length(events) RETURNING last_id INTO last;
		RETURN last;
	END IF;
	-- The transaction has its id before the events have their seq: faregate_number_events relies on it.
	PERFORM pg_current_xact_id();
	INSERT INTO outbox_staged (organization_id, code, details)
	SELECT organization_id, code, details FROM json_to_recordset(events)
		AS given (position integer, organization_id text, code text, details json)
	ORDER BY position;
	RETURN NULL;
END $$;
--> statement-breakpoint
-- Gives ids to the oldest committed events that are staged, at most "batch", and moves them to the outbox. Returns their number.
-- A seq is settled in two steps, because a transaction that has taken a lower one may still commit. "settling_seq" is the newest
-- seq before an earlier call took its own transaction id, "settling_until": once all older transactions have ended, no event up
-- to it can appear any more. In a transaction that has its id already, nothing is settled. A restored database may begin its
-- transaction ids or its sequence again below these columns: nothing of before is running then, and all rows are read.
CREATE FUNCTION faregate_number_events(batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off AS $$
DECLARE
	can_settle boolean := pg_current_xact_id_if_assigned() IS NULL;
	newest bigint := (SELECT last_value FROM outbox_staged_seq_seq);
	counter outbox_counter;
	running pg_snapshot;
	numbered integer;
BEGIN
	IF EXISTS (SELECT FROM outbox_counter WHERE settled_seq = newest) THEN
		RETURN 0;
	END IF;
	SELECT * INTO STRICT counter FROM outbox_counter FOR NO KEY UPDATE;
	running := pg_current_snapshot();
	WITH moved AS (
		DELETE FROM outbox_staged WHERE seq IN (
			SELECT seq FROM outbox_staged WHERE seq > CASE WHEN newest > counter.settled_seq THEN counter.settled_seq ELSE 0 END
			ORDER BY seq LIMIT batch
		) RETURNING *
	)
	INSERT INTO outbox (id, organization_id, code, details, created_at)
	SELECT counter.last_id + row_number() OVER (ORDER BY seq), organization_id, code, details, created_at FROM moved;
	GET DIAGNOSTICS numbered = ROW_COUNT;
	IF can_settle AND numbered < batch AND (counter.settling_until <= pg_snapshot_xmin(running)
		OR counter.settling_until > pg_snapshot_xmax(running)) THEN
		UPDATE outbox_counter SET last_id = last_id + numbered, settled_seq = settling_seq,
			settling_seq = newest, settling_until = pg_current_xact_id();
	ELSIF numbered > 0 THEN
		UPDATE outbox_counter SET last_id = last_id + numbered;
	END IF;
	RETURN numbered;
END $$;
