-- Four new tables. On "usage_ledger" a column without a default, for a moment ACCESS EXCLUSIVE, and a small partial index, which
-- holds up writers while it is built: on a large ledger, build it before with CONCURRENTLY, as README.md says. What ran before
-- this migration goes on working beside it, but what it changes is not on record: past moments are answered from the changes
-- that follow. The record of contracts that there are begins here, with one row each.
CREATE TABLE "contract_states" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "contract_states_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"contract_id" text NOT NULL,
	"since" timestamp (3) with time zone NOT NULL,
	"cause" text NOT NULL,
	"start_date" timestamp (3) with time zone NOT NULL,
	"end_date" timestamp (3) with time zone NOT NULL,
	"auto_renew" boolean NOT NULL,
	"renewal_days" integer NOT NULL,
	"services" json NOT NULL,
	"levels" json NOT NULL
);
--> statement-breakpoint
CREATE TABLE "deleted_pricings" (
	"id" text PRIMARY KEY NOT NULL,
	"service_id" text NOT NULL,
	"model" json NOT NULL,
	"model_hash" text NOT NULL,
	"deleted_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "usage_ledger_start" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"at" timestamp (3) with time zone,
	CONSTRAINT "usage_ledger_start_one_row" CHECK ("usage_ledger_start"."singleton")
);
--> statement-breakpoint
CREATE TABLE "usage_resets" (
	"contract_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"reset_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "usage_resets_pk" PRIMARY KEY("contract_id","service_id","limit_name")
);
--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "reset_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "contract_states" ADD CONSTRAINT "contract_states_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deleted_pricings" ADD CONSTRAINT "deleted_pricings_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage_resets" ADD CONSTRAINT "usage_resets_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "contract_states_contract_idx" ON "contract_states" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "deleted_pricings_service_idx" ON "deleted_pricings" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_ledger_zero_idx" ON "usage_ledger" USING btree ("contract_id","service_id","limit_name","created_at","id") WHERE "usage_ledger"."kind" in ('reset', 'renew', 'remove') or "usage_ledger"."operation_id" = 'carried';--> statement-breakpoint
INSERT INTO "usage_ledger_start" DEFAULT VALUES;--> statement-breakpoint
INSERT INTO contract_states (contract_id, since, cause, start_date, end_date, auto_renew, renewal_days, services, levels)
SELECT c.id, now(), 'record', c.start_date, c.end_date, c.auto_renew, c.renewal_days,
	coalesce((
		SELECT json_agg(json_build_object(
			'serviceId', s.id, 'key', s.name_key, 'disabled', s.disabled, 'pricingId', p.id, 'version', p.version,
			'hash', p.model_hash, 'plan', cs.plan, 'addOns', cs.add_ons) ORDER BY cs.position)
		FROM contract_services cs JOIN services s ON s.id = cs.service_id JOIN pricings p ON p.id = cs.pricing_id
		WHERE cs.contract_id = c.id), '[]'),
	coalesce((
		SELECT json_agg(json_build_object(
			'serviceId', u.service_id, 'limitName', u.limit_name, 'resetAt', u.reset_at, 'anchor', u.anchor,
			'periodValue', u.period_value, 'periodUnit', u.period_unit) ORDER BY u.position, u.service_id COLLATE "C")
		FROM usage_levels u WHERE u.contract_id = c.id), '[]')
FROM contracts c ORDER BY c.id;--> statement-breakpoint
-- As in 0003, and it says up to which moment movements are gone, and which reset moments went with them.
CREATE OR REPLACE FUNCTION compact_usage_ledger(older_than timestamptz, batch integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	WITH oldest AS MATERIALIZED (
		SELECT id, contract_id FROM (
			SELECT id, contract_id, created_at FROM usage_ledger ORDER BY id LIMIT batch
		) first WHERE created_at < least(older_than, now() - interval '1 day')
	), held AS MATERIALIZED (
		SELECT id FROM contracts WHERE id IN (SELECT contract_id FROM oldest) ORDER BY id FOR KEY SHARE SKIP LOCKED
	), gone AS (
		DELETE FROM usage_ledger WHERE id IN (SELECT oldest.id FROM oldest JOIN held ON held.id = oldest.contract_id)
		RETURNING id, contract_id, service_id, limit_name, delta, reset_at, created_at
	), carried AS (
		INSERT INTO usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
		SELECT contract_id, service_id, limit_name, 'adjust', 'carried', sum(delta), now()
		FROM gone GROUP BY contract_id, service_id, limit_name HAVING sum(delta) <> 0
	), resets AS (
		INSERT INTO usage_resets (contract_id, service_id, limit_name, at, reset_at)
		SELECT DISTINCT ON (contract_id, service_id, limit_name) contract_id, service_id, limit_name, created_at, reset_at
		FROM gone WHERE reset_at IS NOT NULL ORDER BY contract_id, service_id, limit_name, id DESC
		ON CONFLICT (contract_id, service_id, limit_name) DO UPDATE SET at = excluded.at, reset_at = excluded.reset_at
	), started AS (
		UPDATE usage_ledger_start SET at = greatest(at, (SELECT max(created_at) FROM gone))
		WHERE EXISTS (SELECT 1 FROM gone)
	)
	SELECT count(*)::integer FROM gone
$$;
