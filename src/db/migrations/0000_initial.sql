-- The whole domain on an empty database: locks nothing that anybody uses.
CREATE TABLE "analytics_days" (
	"day" date PRIMARY KEY NOT NULL,
	"api_calls" bigint DEFAULT 0 NOT NULL,
	"evaluations" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "cache_entries" (
	"key" text PRIMARY KEY NOT NULL,
	"value" json NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "contract_history" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "contract_history_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"contract_id" text NOT NULL,
	"start_date" timestamp (3) with time zone NOT NULL,
	"end_date" timestamp (3) with time zone NOT NULL,
	"contracted_services" json NOT NULL,
	"subscription_plans" json NOT NULL,
	"subscription_add_ons" json NOT NULL
);
--> statement-breakpoint
CREATE TABLE "contract_services" (
	"contract_id" text NOT NULL,
	"service_id" text NOT NULL,
	"pricing_id" text NOT NULL,
	"position" integer NOT NULL,
	"plan" text,
	"add_ons" json,
	CONSTRAINT "contract_services_pk" PRIMARY KEY("contract_id","service_id")
);
--> statement-breakpoint
CREATE TABLE "contracts" (
	"id" text PRIMARY KEY NOT NULL,
	"organization_id" text NOT NULL,
	"user_id" text NOT NULL,
	"username" text NOT NULL,
	"first_name" text,
	"last_name" text,
	"email" text,
	"phone" text,
	"group_id" text,
	"start_date" timestamp (3) with time zone NOT NULL,
	"end_date" timestamp (3) with time zone NOT NULL,
	"auto_renew" boolean DEFAULT false NOT NULL,
	"renewal_days" integer DEFAULT 30 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "contracts_user_unique" UNIQUE("organization_id","user_id")
);
--> statement-breakpoint
CREATE TABLE "members" (
	"organization_id" text NOT NULL,
	"user_id" text NOT NULL,
	"role" text NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "members_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	CONSTRAINT "members_pk" PRIMARY KEY("organization_id","user_id"),
	CONSTRAINT "members_role_known" CHECK ("members"."role" in ('ADMIN', 'MANAGER', 'EVALUATOR'))
);
--> statement-breakpoint
CREATE TABLE "organization_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"organization_id" text NOT NULL,
	"scope" text NOT NULL,
	"key_hash" text NOT NULL,
	"key_sealed" text NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "organization_keys_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "organization_keys_hash_unique" UNIQUE("key_hash"),
	CONSTRAINT "organization_keys_scope_known" CHECK ("organization_keys"."scope" in ('ALL', 'MANAGEMENT', 'EVALUATION'))
);
--> statement-breakpoint
CREATE TABLE "organizations" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"owner_id" text NOT NULL,
	"is_default" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "outbox" (
	"id" bigint PRIMARY KEY NOT NULL,
	"organization_id" text,
	"code" text NOT NULL,
	"details" json NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "outbox_counter" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"last_id" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "outbox_counter_one_row" CHECK ("outbox_counter"."singleton")
);
--> statement-breakpoint
CREATE TABLE "pricings" (
	"id" text PRIMARY KEY NOT NULL,
	"service_id" text NOT NULL,
	"version" text NOT NULL,
	"version_key" text NOT NULL,
	"availability" text NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "pricings_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"url" text,
	"yaml_path" text,
	"source" text NOT NULL,
	"model" json NOT NULL,
	"model_hash" text NOT NULL,
	"declared_at" timestamp (3) with time zone NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "pricings_version_unique" UNIQUE("service_id","version_key"),
	CONSTRAINT "pricings_yaml_path_unique" UNIQUE("yaml_path"),
	CONSTRAINT "pricings_availability_known" CHECK ("pricings"."availability" in ('active', 'archived'))
);
--> statement-breakpoint
CREATE TABLE "services" (
	"id" text PRIMARY KEY NOT NULL,
	"organization_id" text NOT NULL,
	"name" text NOT NULL,
	"name_key" text NOT NULL,
	"disabled" boolean DEFAULT false NOT NULL,
	"has_archive" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "services_name_unique" UNIQUE("organization_id","name_key")
);
--> statement-breakpoint
CREATE TABLE "usage_ledger" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "usage_ledger_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"contract_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"kind" text NOT NULL,
	"feature_id" text,
	"operation_id" text NOT NULL,
	"delta" numeric NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"reverted_at" timestamp (3) with time zone,
	CONSTRAINT "usage_ledger_kind_known" CHECK ("usage_ledger"."kind" in ('consume', 'revert', 'adjust', 'reset', 'renew', 'remove'))
);
--> statement-breakpoint
CREATE TABLE "usage_levels" (
	"contract_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"position" integer NOT NULL,
	"consumed" numeric DEFAULT 0 NOT NULL,
	"anchor" timestamp (3) with time zone,
	"reset_at" timestamp (3) with time zone,
	"period_value" numeric,
	"period_unit" text,
	CONSTRAINT "usage_levels_pk" PRIMARY KEY("contract_id","service_id","limit_name"),
	CONSTRAINT "usage_levels_consumed_not_negative" CHECK ("usage_levels"."consumed" >= 0),
	CONSTRAINT "usage_levels_renewable_whole" CHECK (("usage_levels"."anchor" is null) = ("usage_levels"."reset_at" is null) and ("usage_levels"."reset_at" is null) = ("usage_levels"."period_unit" is null) and ("usage_levels"."period_unit" is null) = ("usage_levels"."period_value" is null))
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" text PRIMARY KEY NOT NULL,
	"username" text NOT NULL,
	"password_hash" text NOT NULL,
	"role" text NOT NULL,
	"api_key_hash" text,
	"api_key_sealed" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "users_username_unique" UNIQUE("username"),
	CONSTRAINT "users_api_key_hash_unique" UNIQUE("api_key_hash"),
	CONSTRAINT "users_role_known" CHECK ("users"."role" in ('ADMIN', 'USER'))
);
--> statement-breakpoint
ALTER TABLE "contract_history" ADD CONSTRAINT "contract_history_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_services" ADD CONSTRAINT "contract_services_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_services" ADD CONSTRAINT "contract_services_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_services" ADD CONSTRAINT "contract_services_pricing_fk" FOREIGN KEY ("pricing_id") REFERENCES "public"."pricings"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contracts" ADD CONSTRAINT "contracts_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "members" ADD CONSTRAINT "members_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "members" ADD CONSTRAINT "members_user_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "organization_keys" ADD CONSTRAINT "organization_keys_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "organizations" ADD CONSTRAINT "organizations_owner_fk" FOREIGN KEY ("owner_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pricings" ADD CONSTRAINT "pricings_service_fk" FOREIGN KEY ("service_id") REFERENCES "public"."services"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "services" ADD CONSTRAINT "services_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD CONSTRAINT "usage_ledger_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD CONSTRAINT "usage_levels_contract_service_fk" FOREIGN KEY ("contract_id","service_id") REFERENCES "public"."contract_services"("contract_id","service_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "contract_history_contract_idx" ON "contract_history" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "contract_services_service_idx" ON "contract_services" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "contract_services_pricing_idx" ON "contract_services" USING btree ("pricing_id");--> statement-breakpoint
CREATE INDEX "contracts_username_idx" ON "contracts" USING btree ("organization_id","username" collate "C","id");--> statement-breakpoint
CREATE INDEX "contracts_group_idx" ON "contracts" USING btree ("organization_id","group_id");--> statement-breakpoint
CREATE INDEX "contracts_user_idx" ON "contracts" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "members_user_idx" ON "members" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "organization_keys_organization_idx" ON "organization_keys" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "organizations_owner_idx" ON "organizations" USING btree ("owner_id");--> statement-breakpoint
CREATE UNIQUE INDEX "organizations_one_default_per_owner" ON "organizations" USING btree ("owner_id") WHERE "organizations"."is_default";--> statement-breakpoint
CREATE INDEX "organizations_created_idx" ON "organizations" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "outbox_created_idx" ON "outbox" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "usage_ledger_level_idx" ON "usage_ledger" USING btree ("contract_id","service_id","limit_name","id");--> statement-breakpoint
CREATE INDEX "users_created_idx" ON "users" USING btree ("created_at","id");
--> statement-breakpoint
-- The one row that event ids are counted in.
INSERT INTO "outbox_counter" DEFAULT VALUES;--> statement-breakpoint
-- A balance is updated in place many times between vacuums: leave room for it on its page.
ALTER TABLE "usage_levels" SET (fillfactor = 70);
