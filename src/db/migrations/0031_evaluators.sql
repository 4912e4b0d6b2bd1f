-- SHARE ROW EXCLUSIVE on "organizations" for a moment, for the foreign key of an empty table.
CREATE TABLE "evaluators" (
	"organization_id" text NOT NULL,
	"session" integer NOT NULL,
	"streams" integer NOT NULL,
	CONSTRAINT "evaluators_pk" PRIMARY KEY("organization_id","session")
);
--> statement-breakpoint
ALTER TABLE "evaluators" ADD CONSTRAINT "evaluators_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;