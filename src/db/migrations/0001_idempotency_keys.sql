-- A new table, which nobody uses yet. The index on usage_ledger is built under a SHARE lock on that table: consumption waits
-- until it is there (about a second a million movements), evaluations do not.
CREATE TABLE "idempotency_keys" (
	"scope" text NOT NULL,
	"key" text NOT NULL,
	"fingerprint" text NOT NULL,
	"status" integer,
	"body" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotency_keys_pk" PRIMARY KEY("scope","key")
);
--> statement-breakpoint
CREATE INDEX "idempotency_keys_created_idx" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "usage_ledger_feature_idx" ON "usage_ledger" USING btree ("contract_id","feature_id","created_at") WHERE "usage_ledger"."feature_id" is not null;
