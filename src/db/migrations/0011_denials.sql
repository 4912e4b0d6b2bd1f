-- A new table: its foreign key takes SHARE ROW EXCLUSIVE on "organizations" for a moment. What ran before goes on beside it.
CREATE TABLE "denials" (
	"organization_id" text NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"feature_id" text NOT NULL,
	"reason" text NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "denials_pk" PRIMARY KEY("organization_id","hour","feature_id","reason")
);
--> statement-breakpoint
ALTER TABLE "denials" ADD CONSTRAINT "denials_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "denials_hour_idx" ON "denials" USING btree ("hour");
