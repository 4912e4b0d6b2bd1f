-- Four new tables. On "usage_ledger" and "usage_levels" columns without a default: ACCESS EXCLUSIVE for a moment. The index over a
-- column that is all null holds up writers of the ledger for one scan of it. The new check is NOT VALID: all rows satisfy the
-- old one, which is narrower. One function is replaced by one that also deletes the sums of a deleted contract. What ran before
-- this migration goes on beside it: event servers of this version add up all movements there are.
CREATE TABLE "usage_keys" (
	"organization_id" text NOT NULL,
	"key" text NOT NULL,
	"fingerprint" text NOT NULL,
	"taken_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "usage_keys_pk" PRIMARY KEY("organization_id","key")
);
--> statement-breakpoint
ALTER TABLE "usage_ledger" DROP CONSTRAINT "usage_ledger_kind_known";--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "used_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "late_amount" numeric;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "renamed_feature_id" text;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "running_since" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "usage_keys_taken_idx" ON "usage_keys" USING btree ("taken_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_ledger_renamed_idx" ON "usage_ledger" USING btree ("contract_id","renamed_feature_id") WHERE "usage_ledger"."renamed_feature_id" is not null;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD CONSTRAINT "usage_ledger_kind_known" CHECK ("usage_ledger"."kind" in ('consume', 'revert', 'adjust', 'reset', 'renew', 'remove', 'late')) NOT VALID;--> statement-breakpoint
CREATE TABLE "usage_days" (
	"contract_id" text NOT NULL,
	"day" timestamp (3) with time zone NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"feature_id" text NOT NULL,
	"counted" numeric NOT NULL,
	"cleared" numeric NOT NULL,
	"late" numeric NOT NULL,
	"entries" bigint NOT NULL,
	CONSTRAINT "usage_days_pk" PRIMARY KEY("contract_id","day","service_id","limit_name","feature_id")
);
--> statement-breakpoint
CREATE TABLE "usage_hours" (
	"contract_id" text NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"counted" numeric NOT NULL,
	"cleared" numeric NOT NULL,
	"late" numeric NOT NULL,
	"entries" bigint NOT NULL,
	CONSTRAINT "usage_hours_pk" PRIMARY KEY("contract_id","hour","service_id","limit_name")
);
--> statement-breakpoint
CREATE TABLE "usage_rollup" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"up_to" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_rollup_one_row" CHECK ("usage_rollup"."singleton")
);
--> statement-breakpoint
CREATE INDEX "usage_days_day_idx" ON "usage_days" USING btree ("day");--> statement-breakpoint
CREATE INDEX "usage_hours_hour_idx" ON "usage_hours" USING btree ("hour");--> statement-breakpoint
INSERT INTO "usage_rollup" DEFAULT VALUES;--> statement-breakpoint
-- As in 0012. It waits for a batch of the roll-up that may be adding sums of this contract, and keeps the next one from beginning
-- until the deletion has committed.
CREATE OR REPLACE FUNCTION faregate_remove_movements() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	PERFORM 1 FROM usage_rollup FOR SHARE;
	DELETE FROM usage_ledger WHERE contract_id = OLD.id;
	DELETE FROM usage_hours WHERE contract_id = OLD.id;
	DELETE FROM usage_days WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
