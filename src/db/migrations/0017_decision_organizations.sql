-- Locks pricing_decisions for moments: a nullable column, a constraint that is not checked, and an index (some 100 ms per
-- 100,000 decisions). Decisions so far are attributed to the organization that has the service now. A process of the
-- version before writes none: those decisions stay in the audit log alone.
ALTER TABLE "pricing_decisions" ADD COLUMN "organization_id" text;--> statement-breakpoint
UPDATE "pricing_decisions" SET "organization_id" = (SELECT s."organization_id" FROM "services" s WHERE s."id" = "service_id");--> statement-breakpoint
ALTER TABLE "pricing_decisions" ADD CONSTRAINT "pricing_decisions_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action NOT VALID;--> statement-breakpoint
CREATE INDEX "pricing_decisions_organization_idx" ON "pricing_decisions" USING btree ("organization_id");
