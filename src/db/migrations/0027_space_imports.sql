-- A new table, which only `faregate import-space` reads and writes.
CREATE TABLE "space_imports" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"dump_hash" text NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"batches" integer NOT NULL,
	"fetched" json NOT NULL,
	"seeded_admin" json,
	"report" json,
	"reported" boolean DEFAULT false NOT NULL,
	CONSTRAINT "space_imports_one_row" CHECK ("space_imports"."singleton")
);
