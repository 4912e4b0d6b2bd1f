-- Adds a table and a nullable column without a default: organizations, services and pricings are locked for moments only.
CREATE TABLE "pricing_decisions" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "pricing_decisions_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"service_id" text NOT NULL,
	"pricing_id" text,
	"version" text,
	"action" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	"rules" json NOT NULL,
	"override_reason" text,
	"report" json NOT NULL
);
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "gate_rules" json;--> statement-breakpoint
ALTER TABLE "pricing_decisions" ADD CONSTRAINT "pricing_decisions_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pricing_decisions" ADD CONSTRAINT "pricing_decisions_pricing_fk" FOREIGN KEY ("pricing_id") REFERENCES "public"."pricings"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "pricing_decisions_service_idx" ON "pricing_decisions" USING btree ("service_id","id");--> statement-breakpoint
CREATE INDEX "pricing_decisions_pricing_idx" ON "pricing_decisions" USING btree ("pricing_id");