-- On "organization_keys" a column without a default: ACCESS EXCLUSIVE for a moment. On "outbox" a small partial index, which
-- holds up writers while it is built: it reads no more events than are kept. What ran before this migration goes on beside it.
ALTER TABLE "organization_keys" ADD COLUMN "name" text;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "outbox_limits_idx" ON "outbox" USING btree ("organization_id","created_at") WHERE "outbox"."code" = 'USAGE_LIMIT_REACHED';