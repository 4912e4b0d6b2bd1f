-- Locks nothing that exists. What ran before this migration goes on working beside it; the servers only read the row.
CREATE TABLE "instances" (
	"id" text PRIMARY KEY NOT NULL,
	"only_one" boolean DEFAULT true NOT NULL,
	CONSTRAINT "instances_only_one_unique" UNIQUE("only_one"),
	CONSTRAINT "instances_only_one_true" CHECK ("instances"."only_one")
);
--> statement-breakpoint
INSERT INTO "instances" ("id") VALUES (left(replace(gen_random_uuid()::text, '-', ''), 24));
