-- Two new tables and two functions, which nobody uses yet. On "organization_keys" and "users" columns without a default are
-- added, and on "users" a unique index over one of them, all null: ACCESS EXCLUSIVE locks for a moment. What ran before this
-- migration goes on working beside it.
CREATE TABLE "audit_log" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "audit_log_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp (3) with time zone NOT NULL,
	"organization_id" text,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	"action" text NOT NULL,
	"target" text NOT NULL,
	"before" json,
	"after" json,
	"request_id" text,
	CONSTRAINT "audit_log_actor_known" CHECK ("audit_log"."actor_kind" in ('user', 'key', 'anonymous'))
);
--> statement-breakpoint
CREATE UNLOGGED TABLE "rate_counters" (
	"bucket" text NOT NULL,
	"minute" integer NOT NULL,
	"count" integer NOT NULL,
	CONSTRAINT "rate_counters_pk" PRIMARY KEY("bucket","minute")
);
--> statement-breakpoint
ALTER TABLE "organization_keys" ADD COLUMN "expires_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "organization_keys" ADD COLUMN "last_used_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "api_key_expires_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "api_key_last_used_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "previous_api_key_hash" text;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "previous_api_key_until" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "audit_log_organization_idx" ON "audit_log" USING btree ("organization_id","id");--> statement-breakpoint
CREATE INDEX "audit_log_at_idx" ON "audit_log" USING btree ("at");--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_previous_api_key_hash_unique" UNIQUE("previous_api_key_hash");--> statement-breakpoint
-- Retention, for a role that may not delete: the audit log and the ledger are append-only for the server.
-- Removes at most "batch" entries of the audit log that are older, never any of the last seven days; how many.
CREATE FUNCTION prune_audit_log(older_than timestamptz, batch integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	WITH gone AS (
		DELETE FROM audit_log WHERE id IN (
			SELECT id FROM audit_log WHERE at < least(older_than, now() - interval '7 days') ORDER BY at LIMIT batch
		) RETURNING 1
	)
	SELECT count(*)::integer FROM gone
$$;--> statement-breakpoint
-- Replaces at most "batch" movements that are older, never any of the last day, by one sum a balance, so that balance and
-- ledger agree at every moment; how many went. Contracts that are being deleted are left alone.
CREATE FUNCTION compact_usage_ledger(older_than timestamptz, batch integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	WITH oldest AS MATERIALIZED (
		SELECT id, contract_id FROM (
			SELECT id, contract_id, created_at FROM usage_ledger ORDER BY id LIMIT batch
		) first WHERE created_at < least(older_than, now() - interval '1 day')
	), held AS MATERIALIZED (
		SELECT id FROM contracts WHERE id IN (SELECT contract_id FROM oldest) ORDER BY id FOR KEY SHARE SKIP LOCKED
	), gone AS (
		DELETE FROM usage_ledger WHERE id IN (SELECT oldest.id FROM oldest JOIN held ON held.id = oldest.contract_id)
		RETURNING contract_id, service_id, limit_name, delta
	), carried AS (
		INSERT INTO usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
		SELECT contract_id, service_id, limit_name, 'adjust', 'carried', sum(delta), now()
		FROM gone GROUP BY contract_id, service_id, limit_name HAVING sum(delta) <> 0
	)
	SELECT count(*)::integer FROM gone
$$;--> statement-breakpoint
REVOKE ALL ON FUNCTION prune_audit_log(timestamptz, integer), compact_usage_ledger(timestamptz, integer) FROM PUBLIC;
