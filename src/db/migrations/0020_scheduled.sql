-- New tables. On "contracts" and "contract_states" columns without a default: ACCESS EXCLUSIVE for a moment; on "contracts" also
-- an index that starts empty, whose build blocks writes. What ran before this migration goes on beside it, and leaves changes
-- that are due to newer processes.
CREATE TABLE "given_trials" (
	"organization_id" text NOT NULL,
	"user_id" text NOT NULL,
	"service_id" text NOT NULL,
	CONSTRAINT "given_trials_pk" PRIMARY KEY("organization_id","user_id","service_id")
);
--> statement-breakpoint
CREATE TABLE "scheduled_changes" (
	"id" text PRIMARY KEY NOT NULL,
	"organization_id" text NOT NULL,
	"kind" text NOT NULL,
	"state" text NOT NULL,
	"contract_id" text,
	"service_id" text,
	"pricing_id" text,
	"availability" json,
	"at" timestamp (3) with time zone NOT NULL,
	"at_period_end" boolean DEFAULT false NOT NULL,
	"ends_contract" boolean DEFAULT false NOT NULL,
	"remind_days" integer,
	"remind_at" timestamp (3) with time zone,
	"auto_renew" boolean,
	"reason" text,
	"effective_at" timestamp (3) with time zone,
	"why" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	CONSTRAINT "scheduled_changes_kind_known" CHECK ("scheduled_changes"."kind" in ('novation', 'trialEnd', 'availability')),
	CONSTRAINT "scheduled_changes_state_known" CHECK ("scheduled_changes"."state" in ('pending', 'done', 'cancelled', 'blocked'))
);
--> statement-breakpoint
CREATE TABLE "scheduled_subscriptions" (
	"change_id" text NOT NULL,
	"position" integer NOT NULL,
	"service_id" text,
	"pricing_id" text,
	"service_name" text NOT NULL,
	"version" text NOT NULL,
	"plan" text,
	"add_ons" json,
	CONSTRAINT "scheduled_subscriptions_pk" PRIMARY KEY("change_id","position")
);
--> statement-breakpoint
ALTER TABLE "contract_states" ADD COLUMN "trial" json;--> statement-breakpoint
ALTER TABLE "contracts" ADD COLUMN "change_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "given_trials" ADD CONSTRAINT "given_trials_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "given_trials" ADD CONSTRAINT "given_trials_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_pricing_fk" FOREIGN KEY ("pricing_id") REFERENCES "public"."pricings"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_subscriptions" ADD CONSTRAINT "scheduled_subscriptions_change_fk" FOREIGN KEY ("change_id") REFERENCES "public"."scheduled_changes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_subscriptions" ADD CONSTRAINT "scheduled_subscriptions_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_subscriptions" ADD CONSTRAINT "scheduled_subscriptions_pricing_fk" FOREIGN KEY ("pricing_id") REFERENCES "public"."pricings"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "given_trials_service_idx" ON "given_trials" USING btree ("service_id");--> statement-breakpoint
CREATE UNIQUE INDEX "scheduled_changes_pending_unique" ON "scheduled_changes" USING btree ("contract_id") WHERE "scheduled_changes"."state" = 'pending';--> statement-breakpoint
CREATE INDEX "scheduled_changes_contract_idx" ON "scheduled_changes" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_service_idx" ON "scheduled_changes" USING btree ("service_id","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_pricing_idx" ON "scheduled_changes" USING btree ("pricing_id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_organization_idx" ON "scheduled_changes" USING btree ("organization_id","state","at","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_state_idx" ON "scheduled_changes" USING btree ("state","at","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_reminder_idx" ON "scheduled_changes" USING btree ("remind_at") WHERE "scheduled_changes"."state" = 'pending' and "scheduled_changes"."remind_at" is not null;--> statement-breakpoint
CREATE INDEX "scheduled_subscriptions_service_idx" ON "scheduled_subscriptions" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "scheduled_subscriptions_pricing_idx" ON "scheduled_subscriptions" USING btree ("pricing_id");--> statement-breakpoint
CREATE INDEX "contracts_change_idx" ON "contracts" USING btree ("change_at") WHERE "contracts"."change_at" is not null;