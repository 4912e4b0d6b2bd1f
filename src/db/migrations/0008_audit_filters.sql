-- Indexes only: each holds up writers of "audit_log", and so of every change, while it is built. On a large one build them
-- before with CONCURRENTLY, as README.md says. What ran before this migration goes on working beside it.
CREATE INDEX IF NOT EXISTS "audit_log_action_idx" ON "audit_log" USING btree ("organization_id","action","id");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "audit_log_target_idx" ON "audit_log" USING btree ("target","id");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "audit_log_actor_idx" ON "audit_log" USING btree ("actor_id","id");
