-- Locks users for moments: a nullable column, and an index (some 100 ms per 100,000 users).
ALTER TABLE "users" ADD COLUMN "username_skeleton" text;--> statement-breakpoint
CREATE INDEX "users_username_skeleton_idx" ON "users" USING btree ("username_skeleton");
