-- Connections to payment providers, their messages and subscriptions, and periods on the calendar. New columns without a default
-- and checks that hold already: ACCESS EXCLUSIVE on "contracts", "contract_states" and "audit_log" while the checks are read.
CREATE TABLE "billing_connections" (
	"id" text NOT NULL,
	"organization_id" text NOT NULL,
	"provider" text NOT NULL,
	"secret_sealed" text NOT NULL,
	"previous_secret_sealed" text,
	"previous_secret_until" timestamp (3) with time zone,
	"secret_end" text NOT NULL,
	"prices" json NOT NULL,
	"user_id_rule" text NOT NULL,
	"ended" json NOT NULL,
	"grace_days" integer NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "billing_connections_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "billing_connections_provider_unique" UNIQUE("organization_id","provider"),
	CONSTRAINT "billing_connections_provider_known" CHECK ("billing_connections"."provider" in ('stripe', 'standard'))
);
--> statement-breakpoint
CREATE TABLE "billing_links" (
	"connection_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"kind" text NOT NULL,
	"name" text NOT NULL,
	"user_id" text NOT NULL,
	"linked_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "billing_links_pk" PRIMARY KEY("connection_id","kind","name","organization_id"),
	CONSTRAINT "billing_links_kind_known" CHECK ("billing_links"."kind" in ('subscription', 'customer'))
);
--> statement-breakpoint
CREATE TABLE "billing_messages" (
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "billing_messages_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"connection_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"message_id" text NOT NULL,
	"type" text NOT NULL,
	"subscription" text,
	"customer" text,
	"user_id" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"received_at" timestamp (3) with time zone NOT NULL,
	"content" json NOT NULL,
	"outcome" text NOT NULL,
	"reason" text,
	CONSTRAINT "billing_messages_pk" PRIMARY KEY("connection_id","message_id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "billing_subscriptions" (
	"connection_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"subscription" text NOT NULL,
	"user_id" text NOT NULL,
	"register" json NOT NULL,
	"is_detached" boolean DEFAULT false NOT NULL,
	CONSTRAINT "billing_subscriptions_pk" PRIMARY KEY("connection_id","subscription","organization_id")
);
--> statement-breakpoint
CREATE TABLE "contract_billing" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"applied" json NOT NULL,
	"connection_id" text,
	"provider" text,
	"subscription" text,
	"customer" text,
	"status" text,
	"since" timestamp (3) with time zone,
	CONSTRAINT "contract_billing_pk" PRIMARY KEY("contract_id","organization_id")
);
--> statement-breakpoint
ALTER TABLE "audit_log" DROP CONSTRAINT "audit_log_actor_known";--> statement-breakpoint
ALTER TABLE "contract_states" ADD COLUMN "renewal_value" integer;--> statement-breakpoint
ALTER TABLE "contract_states" ADD COLUMN "renewal_unit" text;--> statement-breakpoint
ALTER TABLE "contracts" ADD COLUMN "renewal_value" integer;--> statement-breakpoint
ALTER TABLE "contracts" ADD COLUMN "renewal_unit" text;--> statement-breakpoint
ALTER TABLE "billing_connections" ADD CONSTRAINT "billing_connections_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "billing_links" ADD CONSTRAINT "billing_links_connection_fk" FOREIGN KEY ("connection_id","organization_id") REFERENCES "public"."billing_connections"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "billing_messages" ADD CONSTRAINT "billing_messages_connection_fk" FOREIGN KEY ("connection_id","organization_id") REFERENCES "public"."billing_connections"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "billing_subscriptions" ADD CONSTRAINT "billing_subscriptions_connection_fk" FOREIGN KEY ("connection_id","organization_id") REFERENCES "public"."billing_connections"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_billing" ADD CONSTRAINT "contract_billing_contract_fk" FOREIGN KEY ("contract_id","organization_id") REFERENCES "public"."contracts"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "billing_messages_seq_idx" ON "billing_messages" USING btree ("connection_id","seq");--> statement-breakpoint
CREATE INDEX "billing_messages_open_idx" ON "billing_messages" USING btree ("connection_id","outcome","seq") WHERE "billing_messages"."outcome" in ('waiting', 'unmapped', 'failed');--> statement-breakpoint
CREATE INDEX "billing_messages_received_idx" ON "billing_messages" USING btree ("received_at");--> statement-breakpoint
CREATE INDEX "billing_subscriptions_user_idx" ON "billing_subscriptions" USING btree ("organization_id","user_id");--> statement-breakpoint
CREATE INDEX "contract_billing_connection_idx" ON "contract_billing" USING btree ("connection_id");--> statement-breakpoint
ALTER TABLE "audit_log" ADD CONSTRAINT "audit_log_actor_known" CHECK ("audit_log"."actor_kind" in ('user', 'key', 'anonymous', 'billing'));--> statement-breakpoint
ALTER TABLE "contracts" ADD CONSTRAINT "contracts_renewal_unit_known" CHECK ("contracts"."renewal_unit" in ('DAY', 'MONTH', 'YEAR'));--> statement-breakpoint
ALTER TABLE "contracts" ADD CONSTRAINT "contracts_renewal_whole" CHECK (("contracts"."renewal_value" is null) = ("contracts"."renewal_unit" is null));