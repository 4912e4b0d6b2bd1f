-- Changes that wait for a second person. Locks `organizations` for the time of a column and a foreign key.
CREATE TABLE "change_requests" (
	"id" text NOT NULL,
	"organization_id" text NOT NULL,
	"action" text NOT NULL,
	"operation" text NOT NULL,
	"input" json NOT NULL,
	"method" text NOT NULL,
	"path" text NOT NULL,
	"fingerprint" text NOT NULL,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	"summary" text NOT NULL,
	"report" json NOT NULL,
	"basis" text NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"state" text DEFAULT 'pending' NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"decided_by" text,
	"decided_at" timestamp (3) with time zone,
	"reason" text,
	CONSTRAINT "change_requests_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "change_requests_state_known" CHECK ("change_requests"."state" in ('pending', 'approved', 'rejected', 'withdrawn'))
);
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "approvals" json;--> statement-breakpoint
ALTER TABLE "change_requests" ADD CONSTRAINT "change_requests_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "change_requests_organization_idx" ON "change_requests" USING btree ("organization_id","state","id");--> statement-breakpoint
CREATE INDEX "change_requests_expires_idx" ON "change_requests" USING btree ("expires_at");