-- The whole schema. Locks nothing: the database is empty.
CREATE TABLE "analytics_days" (
	"day" date PRIMARY KEY NOT NULL,
	"api_calls" bigint DEFAULT 0 NOT NULL,
	"evaluations" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "audit_log" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "audit_log_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp (3) with time zone NOT NULL,
	"organization_id" text NOT NULL,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	"action" text NOT NULL,
	"target" text NOT NULL,
	"before" json,
	"after" json,
	"request_id" text,
	CONSTRAINT "audit_log_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "audit_log_actor_known" CHECK ("audit_log"."actor_kind" in ('user', 'key', 'anonymous'))
);
--> statement-breakpoint
CREATE TABLE "cache_entries" (
	"key" text PRIMARY KEY NOT NULL,
	"value" json NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "contract_history" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "contract_history_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"start_date" timestamp (3) with time zone NOT NULL,
	"end_date" timestamp (3) with time zone NOT NULL,
	"contracted_services" json NOT NULL,
	"subscription_plans" json NOT NULL,
	"subscription_add_ons" json NOT NULL,
	CONSTRAINT "contract_history_pk" PRIMARY KEY("id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "contract_overrides" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"kind" text NOT NULL,
	"name" text NOT NULL,
	"mode" text NOT NULL,
	"value" json NOT NULL,
	"starts_at" timestamp (3) with time zone NOT NULL,
	"ends_at" timestamp (3) with time zone,
	"reason" text NOT NULL,
	"set_at" timestamp (3) with time zone NOT NULL,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	"end_announced" boolean DEFAULT false NOT NULL,
	CONSTRAINT "contract_overrides_pk" PRIMARY KEY("contract_id","service_id","kind","name","organization_id"),
	CONSTRAINT "contract_overrides_kind_known" CHECK ("contract_overrides"."kind" in ('features', 'usageLimits')),
	CONSTRAINT "contract_overrides_mode_known" CHECK ("contract_overrides"."mode" in ('set', 'add'))
);
--> statement-breakpoint
CREATE TABLE "contract_services" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"pricing_id" text NOT NULL,
	"position" integer NOT NULL,
	"plan" text,
	"add_ons" json,
	CONSTRAINT "contract_services_pk" PRIMARY KEY("contract_id","service_id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "contract_states" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "contract_states_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"since" timestamp (3) with time zone NOT NULL,
	"cause" text NOT NULL,
	"start_date" timestamp (3) with time zone NOT NULL,
	"end_date" timestamp (3) with time zone NOT NULL,
	"auto_renew" boolean NOT NULL,
	"renewal_days" integer NOT NULL,
	"services" json NOT NULL,
	"levels" json NOT NULL,
	"overrides" json,
	"trial" json,
	CONSTRAINT "contract_states_pk" PRIMARY KEY("id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "contracts" (
	"id" text NOT NULL,
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
	"expiry_announced" timestamp (3) with time zone,
	"change_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "contracts_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "contracts_user_unique" UNIQUE("organization_id","user_id")
);
--> statement-breakpoint
CREATE TABLE "deleted_pricings" (
	"id" text NOT NULL,
	"service_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"model" json NOT NULL,
	"model_hash" text NOT NULL,
	"deleted_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "deleted_pricings_pk" PRIMARY KEY("id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "denials" (
	"organization_id" text NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"feature_id" text NOT NULL,
	"reason" text NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "denials_pk" PRIMARY KEY("organization_id","hour","feature_id","reason")
);
--> statement-breakpoint
CREATE TABLE "evaluators" (
	"organization_id" text NOT NULL,
	"session" integer NOT NULL,
	"streams" integer NOT NULL,
	CONSTRAINT "evaluators_pk" PRIMARY KEY("organization_id","session")
);
--> statement-breakpoint
CREATE TABLE "given_trials" (
	"organization_id" text NOT NULL,
	"user_id" text NOT NULL,
	"service_id" text NOT NULL,
	CONSTRAINT "given_trials_pk" PRIMARY KEY("organization_id","user_id","service_id")
);
--> statement-breakpoint
CREATE TABLE "holds" (
	"id" text NOT NULL,
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"kind" text DEFAULT 'hold' NOT NULL,
	"feature_id" text NOT NULL,
	"amounts" json NOT NULL,
	"on_expiry" text NOT NULL,
	"state" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"until" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"counted" json,
	"lease" json,
	CONSTRAINT "holds_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "holds_kind_known" CHECK ("holds"."kind" in ('hold', 'lease')),
	CONSTRAINT "holds_state_known" CHECK ("holds"."state" in ('open', 'settled', 'released', 'expired')),
	CONSTRAINT "holds_expiry_known" CHECK ("holds"."on_expiry" in ('release', 'consume')),
	CONSTRAINT "holds_ended_whole" CHECK (("holds"."state" = 'open') = ("holds"."ended_at" is null)),
	CONSTRAINT "holds_lease_whole" CHECK (("holds"."kind" = 'lease') = ("holds"."lease" is not null))
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"scope" text NOT NULL,
	"organization_id" text NOT NULL,
	"key" text NOT NULL,
	"fingerprint" text NOT NULL,
	"status" integer,
	"body" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotency_keys_pk" PRIMARY KEY("scope","key","organization_id")
);
--> statement-breakpoint
CREATE TABLE "instances" (
	"id" text PRIMARY KEY NOT NULL,
	"only_one" boolean DEFAULT true NOT NULL,
	CONSTRAINT "instances_only_one_unique" UNIQUE("only_one"),
	CONSTRAINT "instances_only_one_true" CHECK ("instances"."only_one")
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
	"name" text,
	"key_hash" text NOT NULL,
	"key_sealed" text NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"last_used_at" timestamp (3) with time zone,
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
	"gate_rules" json,
	"usage_thresholds" json,
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
	"settled_seq" bigint DEFAULT 1 NOT NULL,
	"settling_seq" bigint DEFAULT 1 NOT NULL,
	"settling_until" "xid8" DEFAULT '0' NOT NULL,
	CONSTRAINT "outbox_counter_one_row" CHECK ("outbox_counter"."singleton")
);
--> statement-breakpoint
CREATE TABLE "outbox_staged" (
	"seq" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "outbox_staged_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"organization_id" text,
	"code" text NOT NULL,
	"details" json NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "pricing_decisions" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "pricing_decisions_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"service_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"pricing_id" text,
	"version" text,
	"action" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	"rules" json NOT NULL,
	"override_reason" text,
	"report" json NOT NULL,
	CONSTRAINT "pricing_decisions_pk" PRIMARY KEY("id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "pricings" (
	"id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"version" text NOT NULL,
	"version_key" text NOT NULL,
	"availability" text NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "pricings_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"url" text,
	"yaml_path" text,
	"source" text NOT NULL,
	"expectations" text,
	"model" json NOT NULL,
	"model_hash" text NOT NULL,
	"declared_at" timestamp (3) with time zone NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "pricings_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "pricings_version_unique" UNIQUE("service_id","version_key","organization_id"),
	CONSTRAINT "pricings_yaml_path_unique" UNIQUE("yaml_path","organization_id"),
	CONSTRAINT "pricings_availability_known" CHECK ("pricings"."availability" in ('active', 'archived'))
);
--> statement-breakpoint
-- Counters that a crash of the database may empty: no write-ahead log for them.
CREATE UNLOGGED TABLE "rate_counters" (
	"bucket" text NOT NULL,
	"minute" integer NOT NULL,
	"count" integer NOT NULL,
	CONSTRAINT "rate_counters_pk" PRIMARY KEY("bucket","minute")
);
--> statement-breakpoint
CREATE TABLE "scheduled_changes" (
	"id" text NOT NULL,
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
	CONSTRAINT "scheduled_changes_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "scheduled_changes_kind_known" CHECK ("scheduled_changes"."kind" in ('novation', 'trialEnd', 'availability')),
	CONSTRAINT "scheduled_changes_state_known" CHECK ("scheduled_changes"."state" in ('pending', 'done', 'cancelled', 'blocked'))
);
--> statement-breakpoint
CREATE TABLE "scheduled_subscriptions" (
	"change_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"position" integer NOT NULL,
	"service_id" text,
	"pricing_id" text,
	"service_name" text NOT NULL,
	"version" text NOT NULL,
	"plan" text,
	"add_ons" json,
	CONSTRAINT "scheduled_subscriptions_pk" PRIMARY KEY("change_id","position","organization_id")
);
--> statement-breakpoint
CREATE TABLE "services" (
	"id" text NOT NULL,
	"organization_id" text NOT NULL,
	"name" text NOT NULL,
	"name_key" text NOT NULL,
	"disabled" boolean DEFAULT false NOT NULL,
	"has_archive" boolean DEFAULT false NOT NULL,
	"offer_published" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "services_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "services_name_unique" UNIQUE("organization_id","name_key")
);
--> statement-breakpoint
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
--> statement-breakpoint
CREATE TABLE "token_keys" (
	"kid" text PRIMARY KEY NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "token_keys_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"x" text NOT NULL,
	"private_sealed" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"signs_from" timestamp (3) with time zone NOT NULL,
	"published_until" timestamp (3) with time zone,
	CONSTRAINT "token_keys_position_unique" UNIQUE("position")
);
--> statement-breakpoint
CREATE TABLE "usage_days" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"day" timestamp (3) with time zone NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"feature_id" text NOT NULL,
	"counted" numeric NOT NULL,
	"cleared" numeric NOT NULL,
	"late" numeric NOT NULL,
	"entries" bigint NOT NULL,
	CONSTRAINT "usage_days_pk" PRIMARY KEY("contract_id","day","service_id","limit_name","feature_id","organization_id")
);
--> statement-breakpoint
CREATE TABLE "usage_hours" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"counted" numeric NOT NULL,
	"cleared" numeric NOT NULL,
	"late" numeric NOT NULL,
	"entries" bigint NOT NULL,
	CONSTRAINT "usage_hours_pk" PRIMARY KEY("contract_id","hour","service_id","limit_name","organization_id")
);
--> statement-breakpoint
CREATE TABLE "usage_keys" (
	"organization_id" text NOT NULL,
	"key" text NOT NULL,
	"fingerprint" text NOT NULL,
	"taken_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "usage_keys_pk" PRIMARY KEY("organization_id","key")
);
--> statement-breakpoint
CREATE TABLE "usage_ledger" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "usage_ledger_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"kind" text NOT NULL,
	"feature_id" text,
	"operation_id" text NOT NULL,
	"delta" numeric NOT NULL,
	"reset_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"reverted_at" timestamp (3) with time zone,
	"used_at" timestamp (3) with time zone,
	"late_amount" numeric,
	"renamed_feature_id" text,
	CONSTRAINT "usage_ledger_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "usage_ledger_kind_known" CHECK ("usage_ledger"."kind" in ('consume', 'revert', 'adjust', 'reset', 'renew', 'remove', 'late'))
);
--> statement-breakpoint
CREATE TABLE "usage_ledger_start" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"at" timestamp (3) with time zone,
	CONSTRAINT "usage_ledger_start_one_row" CHECK ("usage_ledger_start"."singleton")
);
--> statement-breakpoint
CREATE TABLE "usage_levels" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"position" integer NOT NULL,
	"consumed" numeric DEFAULT 0 NOT NULL,
	"alerted_threshold" integer,
	"alerted_limit" numeric,
	"held" numeric DEFAULT 0 NOT NULL,
	"open_holds" integer DEFAULT 0 NOT NULL,
	"hold_due" timestamp (3) with time zone,
	"anchor" timestamp (3) with time zone,
	"reset_at" timestamp (3) with time zone,
	"period_value" numeric,
	"period_unit" text,
	"limit_value" numeric,
	"used_tenths" smallint,
	"running_since" timestamp (3) with time zone,
	CONSTRAINT "usage_levels_pk" PRIMARY KEY("contract_id","service_id","limit_name","organization_id"),
	CONSTRAINT "usage_levels_consumed_not_negative" CHECK ("usage_levels"."consumed" >= 0),
	CONSTRAINT "usage_levels_held_not_negative" CHECK ("usage_levels"."held" >= 0),
	CONSTRAINT "usage_levels_held_whole" CHECK (("usage_levels"."open_holds" = 0) = ("usage_levels"."hold_due" is null)),
	CONSTRAINT "usage_levels_renewable_whole" CHECK (("usage_levels"."anchor" is null) = ("usage_levels"."reset_at" is null) and ("usage_levels"."reset_at" is null) = ("usage_levels"."period_unit" is null) and ("usage_levels"."period_unit" is null) = ("usage_levels"."period_value" is null))
);
--> statement-breakpoint
CREATE TABLE "usage_resets" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"reset_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "usage_resets_pk" PRIMARY KEY("contract_id","service_id","limit_name","organization_id")
);
--> statement-breakpoint
CREATE TABLE "usage_rollup" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"up_to" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_rollup_one_row" CHECK ("usage_rollup"."singleton")
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" text PRIMARY KEY NOT NULL,
	"username" text NOT NULL,
	"username_skeleton" text,
	"password_hash" text NOT NULL,
	"role" text NOT NULL,
	"api_key_hash" text,
	"api_key_sealed" text,
	"api_key_expires_at" timestamp (3) with time zone,
	"api_key_last_used_at" timestamp (3) with time zone,
	"previous_api_key_hash" text,
	"previous_api_key_until" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "users_username_unique" UNIQUE("username"),
	CONSTRAINT "users_api_key_hash_unique" UNIQUE("api_key_hash"),
	CONSTRAINT "users_previous_api_key_hash_unique" UNIQUE("previous_api_key_hash"),
	CONSTRAINT "users_role_known" CHECK ("users"."role" in ('ADMIN', 'USER'))
);
--> statement-breakpoint
CREATE TABLE "webhook_cursor" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"last_id" bigint NOT NULL,
	CONSTRAINT "webhook_cursor_one_row" CHECK ("webhook_cursor"."singleton")
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "webhook_deliveries_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"endpoint_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"event_id" bigint NOT NULL,
	"code" text NOT NULL,
	"payload" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp (3) with time zone NOT NULL,
	"last_attempt_at" timestamp (3) with time zone,
	"response_status" integer,
	"duration_ms" integer,
	"error" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "webhook_deliveries_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "webhook_deliveries_event_unique" UNIQUE("endpoint_id","event_id","organization_id"),
	CONSTRAINT "webhook_deliveries_status_known" CHECK ("webhook_deliveries"."status" in ('pending', 'delivered', 'failed'))
);
--> statement-breakpoint
CREATE TABLE "webhook_endpoints" (
	"id" text NOT NULL,
	"organization_id" text NOT NULL,
	"url" text NOT NULL,
	"description" text,
	"codes" json,
	"state" text NOT NULL,
	"suspended_at" timestamp (3) with time zone,
	"suspended_reason" text,
	"secret_sealed" text NOT NULL,
	"previous_secret_sealed" text,
	"previous_secret_until" timestamp (3) with time zone,
	"failures" integer DEFAULT 0 NOT NULL,
	"failing_since" timestamp (3) with time zone,
	"after_event_id" bigint NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "webhook_endpoints_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "webhook_endpoints_state_known" CHECK ("webhook_endpoints"."state" in ('enabled', 'disabled', 'suspended'))
);
--> statement-breakpoint
ALTER TABLE "contract_history" ADD CONSTRAINT "contract_history_contract_fk" FOREIGN KEY ("contract_id","organization_id") REFERENCES "public"."contracts"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_overrides" ADD CONSTRAINT "contract_overrides_contract_service_fk" FOREIGN KEY ("contract_id","service_id","organization_id") REFERENCES "public"."contract_services"("contract_id","service_id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_services" ADD CONSTRAINT "contract_services_contract_fk" FOREIGN KEY ("contract_id","organization_id") REFERENCES "public"."contracts"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_services" ADD CONSTRAINT "contract_services_service_fk" FOREIGN KEY ("service_id","organization_id") REFERENCES "public"."services"("id","organization_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_services" ADD CONSTRAINT "contract_services_pricing_fk" FOREIGN KEY ("pricing_id","organization_id") REFERENCES "public"."pricings"("id","organization_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contract_states" ADD CONSTRAINT "contract_states_contract_fk" FOREIGN KEY ("contract_id","organization_id") REFERENCES "public"."contracts"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "contracts" ADD CONSTRAINT "contracts_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deleted_pricings" ADD CONSTRAINT "deleted_pricings_service_fk" FOREIGN KEY ("service_id","organization_id") REFERENCES "public"."services"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "denials" ADD CONSTRAINT "denials_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "evaluators" ADD CONSTRAINT "evaluators_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "given_trials" ADD CONSTRAINT "given_trials_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "members" ADD CONSTRAINT "members_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "members" ADD CONSTRAINT "members_user_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "organization_keys" ADD CONSTRAINT "organization_keys_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "organizations" ADD CONSTRAINT "organizations_owner_fk" FOREIGN KEY ("owner_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pricing_decisions" ADD CONSTRAINT "pricing_decisions_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pricings" ADD CONSTRAINT "pricings_service_fk" FOREIGN KEY ("service_id","organization_id") REFERENCES "public"."services"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_contract_fk" FOREIGN KEY ("contract_id","organization_id") REFERENCES "public"."contracts"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_service_fk" FOREIGN KEY ("service_id","organization_id") REFERENCES "public"."services"("id","organization_id") ON DELETE set null ("service_id") ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_changes" ADD CONSTRAINT "scheduled_changes_pricing_fk" FOREIGN KEY ("pricing_id","organization_id") REFERENCES "public"."pricings"("id","organization_id") ON DELETE set null ("pricing_id") ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_subscriptions" ADD CONSTRAINT "scheduled_subscriptions_change_fk" FOREIGN KEY ("change_id","organization_id") REFERENCES "public"."scheduled_changes"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_subscriptions" ADD CONSTRAINT "scheduled_subscriptions_service_fk" FOREIGN KEY ("service_id","organization_id") REFERENCES "public"."services"("id","organization_id") ON DELETE set null ("service_id") ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scheduled_subscriptions" ADD CONSTRAINT "scheduled_subscriptions_pricing_fk" FOREIGN KEY ("pricing_id","organization_id") REFERENCES "public"."pricings"("id","organization_id") ON DELETE set null ("pricing_id") ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "services" ADD CONSTRAINT "services_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD CONSTRAINT "usage_levels_contract_service_fk" FOREIGN KEY ("contract_id","service_id","organization_id") REFERENCES "public"."contract_services"("contract_id","service_id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage_resets" ADD CONSTRAINT "usage_resets_contract_fk" FOREIGN KEY ("contract_id","organization_id") REFERENCES "public"."contracts"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_endpoint_fk" FOREIGN KEY ("endpoint_id","organization_id") REFERENCES "public"."webhook_endpoints"("id","organization_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_organization_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "audit_log_organization_idx" ON "audit_log" USING btree ("organization_id","id");--> statement-breakpoint
CREATE INDEX "audit_log_at_idx" ON "audit_log" USING btree ("at");--> statement-breakpoint
CREATE INDEX "audit_log_action_idx" ON "audit_log" USING btree ("organization_id","action","id");--> statement-breakpoint
CREATE INDEX "audit_log_target_idx" ON "audit_log" USING btree ("target","id");--> statement-breakpoint
CREATE INDEX "audit_log_actor_idx" ON "audit_log" USING btree ("actor_id","id");--> statement-breakpoint
CREATE INDEX "contract_history_contract_idx" ON "contract_history" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "contract_overrides_end_idx" ON "contract_overrides" USING btree ("ends_at") WHERE not "contract_overrides"."end_announced";--> statement-breakpoint
CREATE INDEX "contract_overrides_service_idx" ON "contract_overrides" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "contract_services_service_idx" ON "contract_services" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "contract_services_pricing_idx" ON "contract_services" USING btree ("pricing_id");--> statement-breakpoint
CREATE INDEX "contract_states_contract_idx" ON "contract_states" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "contracts_username_idx" ON "contracts" USING btree ("organization_id","username" collate "C","id");--> statement-breakpoint
CREATE INDEX "contracts_group_idx" ON "contracts" USING btree ("organization_id","group_id");--> statement-breakpoint
CREATE INDEX "contracts_user_idx" ON "contracts" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "contracts_expiry_idx" ON "contracts" USING btree ("end_date") WHERE not "contracts"."auto_renew" and "contracts"."expiry_announced" is distinct from "contracts"."end_date";--> statement-breakpoint
CREATE INDEX "contracts_renewal_idx" ON "contracts" USING btree ("end_date") WHERE "contracts"."auto_renew";--> statement-breakpoint
CREATE INDEX "contracts_change_idx" ON "contracts" USING btree ("change_at") WHERE "contracts"."change_at" is not null;--> statement-breakpoint
CREATE INDEX "deleted_pricings_service_idx" ON "deleted_pricings" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "denials_hour_idx" ON "denials" USING btree ("hour");--> statement-breakpoint
CREATE INDEX "given_trials_service_idx" ON "given_trials" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "holds_contract_idx" ON "holds" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "holds_open_idx" ON "holds" USING btree ("contract_id","until") WHERE "holds"."state" = 'open';--> statement-breakpoint
CREATE INDEX "holds_due_idx" ON "holds" USING btree ("until") WHERE "holds"."state" = 'open';--> statement-breakpoint
CREATE INDEX "idempotency_keys_created_idx" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "members_user_idx" ON "members" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "organization_keys_organization_idx" ON "organization_keys" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "organizations_owner_idx" ON "organizations" USING btree ("owner_id");--> statement-breakpoint
CREATE UNIQUE INDEX "organizations_one_default_per_owner" ON "organizations" USING btree ("owner_id") WHERE "organizations"."is_default";--> statement-breakpoint
CREATE INDEX "organizations_created_idx" ON "organizations" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "outbox_created_idx" ON "outbox" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "outbox_limits_idx" ON "outbox" USING btree ("organization_id","created_at") WHERE "outbox"."code" = 'USAGE_LIMIT_REACHED';--> statement-breakpoint
CREATE INDEX "pricing_decisions_organization_idx" ON "pricing_decisions" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "pricing_decisions_service_idx" ON "pricing_decisions" USING btree ("service_id","id");--> statement-breakpoint
CREATE INDEX "pricing_decisions_pricing_idx" ON "pricing_decisions" USING btree ("pricing_id");--> statement-breakpoint
CREATE UNIQUE INDEX "scheduled_changes_pending_unique" ON "scheduled_changes" USING btree ("contract_id","organization_id") WHERE "scheduled_changes"."state" = 'pending';--> statement-breakpoint
CREATE INDEX "scheduled_changes_contract_idx" ON "scheduled_changes" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_service_idx" ON "scheduled_changes" USING btree ("service_id","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_pricing_idx" ON "scheduled_changes" USING btree ("pricing_id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_organization_idx" ON "scheduled_changes" USING btree ("organization_id","state","at","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_state_idx" ON "scheduled_changes" USING btree ("state","at","id");--> statement-breakpoint
CREATE INDEX "scheduled_changes_reminder_idx" ON "scheduled_changes" USING btree ("remind_at") WHERE "scheduled_changes"."state" = 'pending' and "scheduled_changes"."remind_at" is not null;--> statement-breakpoint
CREATE INDEX "scheduled_subscriptions_service_idx" ON "scheduled_subscriptions" USING btree ("service_id");--> statement-breakpoint
CREATE INDEX "scheduled_subscriptions_pricing_idx" ON "scheduled_subscriptions" USING btree ("pricing_id");--> statement-breakpoint
CREATE INDEX "usage_days_day_idx" ON "usage_days" USING btree ("day");--> statement-breakpoint
CREATE INDEX "usage_hours_hour_idx" ON "usage_hours" USING btree ("hour");--> statement-breakpoint
CREATE INDEX "usage_keys_taken_idx" ON "usage_keys" USING btree ("taken_at");--> statement-breakpoint
CREATE INDEX "usage_ledger_level_idx" ON "usage_ledger" USING btree ("contract_id","service_id","limit_name","id");--> statement-breakpoint
CREATE INDEX "usage_ledger_feature_idx" ON "usage_ledger" USING btree ("contract_id","feature_id","created_at") WHERE "usage_ledger"."feature_id" is not null;--> statement-breakpoint
CREATE INDEX "usage_ledger_renamed_idx" ON "usage_ledger" USING btree ("contract_id","renamed_feature_id") WHERE "usage_ledger"."renamed_feature_id" is not null;--> statement-breakpoint
CREATE INDEX "usage_ledger_zero_idx" ON "usage_ledger" USING btree ("contract_id","service_id","limit_name","created_at","id") WHERE "usage_ledger"."kind" in ('reset', 'renew', 'remove') or "usage_ledger"."operation_id" = 'carried';--> statement-breakpoint
CREATE INDEX "usage_levels_near_idx" ON "usage_levels" USING btree ("service_id","used_tenths") WHERE "usage_levels"."used_tenths" > 0;--> statement-breakpoint
CREATE INDEX "usage_levels_unfilled_idx" ON "usage_levels" USING btree ("service_id") WHERE "usage_levels"."limit_value" is null;--> statement-breakpoint
CREATE INDEX "users_created_idx" ON "users" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "users_username_skeleton_idx" ON "users" USING btree ("username_skeleton");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_due_idx" ON "webhook_deliveries" USING btree ("endpoint_id","next_attempt_at") WHERE "webhook_deliveries"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_created_idx" ON "webhook_deliveries" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "webhook_endpoints_organization_idx" ON "webhook_endpoints" USING btree ("organization_id");--> statement-breakpoint
-- The one row that event ids are counted in.
INSERT INTO "outbox_counter" DEFAULT VALUES;--> statement-breakpoint
-- The first value of a sequence leaves last_value as it was: use it up.
SELECT nextval('outbox_staged_seq_seq');--> statement-breakpoint
INSERT INTO "webhook_cursor" ("last_id") VALUES (0);--> statement-breakpoint
INSERT INTO "usage_ledger_start" DEFAULT VALUES;--> statement-breakpoint
INSERT INTO "usage_rollup" DEFAULT VALUES;--> statement-breakpoint
INSERT INTO "instances" ("id") VALUES (left(replace(gen_random_uuid()::text, '-', ''), 24));--> statement-breakpoint
-- A balance is updated in place many times between vacuums: leave room for it on its page.
ALTER TABLE "usage_levels" SET (fillfactor = 70);--> statement-breakpoint
-- Retention, for a role that may not delete: the audit log and the ledger are append-only for the server.
--
-- Removes at most "batch" older entries of the audit log, never any of the last seven days. Returns their number.
CREATE FUNCTION prune_audit_log(older_than timestamptz, batch integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	WITH gone AS (
		DELETE FROM audit_log WHERE id IN (
			SELECT id FROM audit_log WHERE at < least(older_than, now() - interval '7 days') ORDER BY at LIMIT batch
		) RETURNING 1
	)
	SELECT count(*)::integer FROM gone
$$;
--> statement-breakpoint
-- Replaces at most "batch" older movements, never any of the last day, by one sum per balance, so that balance and ledger agree at
-- every moment. Records up to which moment movements are gone, and which reset moments went with them. Returns the number of
-- movements. Skips contracts that are being deleted.
CREATE FUNCTION compact_usage_ledger(older_than timestamptz, batch integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	WITH oldest AS MATERIALIZED (
		SELECT id, contract_id FROM (
			SELECT id, contract_id, created_at FROM usage_ledger ORDER BY id LIMIT batch
		) first WHERE created_at < least(older_than, now() - interval '1 day')
	), held AS MATERIALIZED (
		SELECT id FROM contracts WHERE id IN (SELECT contract_id FROM oldest) ORDER BY id FOR KEY SHARE SKIP LOCKED
	), gone AS (
		DELETE FROM usage_ledger WHERE id IN (SELECT oldest.id FROM oldest JOIN held ON held.id = oldest.contract_id)
		RETURNING id, contract_id, organization_id, service_id, limit_name, delta, reset_at, created_at
	), carried AS (
		INSERT INTO usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
		SELECT contract_id, organization_id, service_id, limit_name, 'adjust', 'carried', sum(delta), now()
		FROM gone GROUP BY contract_id, organization_id, service_id, limit_name HAVING sum(delta) <> 0
	), resets AS (
		INSERT INTO usage_resets (contract_id, organization_id, service_id, limit_name, at, reset_at)
		SELECT DISTINCT ON (contract_id, service_id, limit_name) contract_id, organization_id, service_id, limit_name, created_at,
			reset_at
		FROM gone WHERE reset_at IS NOT NULL ORDER BY contract_id, service_id, limit_name, id DESC
		ON CONFLICT (contract_id, service_id, limit_name, organization_id) DO UPDATE SET at = excluded.at, reset_at = excluded.reset_at
	), started AS (
		UPDATE usage_ledger_start SET at = greatest(at, (SELECT max(created_at) FROM gone))
		WHERE EXISTS (SELECT 1 FROM gone)
	)
	SELECT count(*)::integer FROM gone
$$;
--> statement-breakpoint
REVOKE ALL ON FUNCTION prune_audit_log(timestamptz, integer), compact_usage_ledger(timestamptz, integer) FROM PUBLIC;
--> statement-breakpoint
-- Processes evict cached rows when these change, whoever changes them, so the tables themselves announce it. A NOTIFY locks the
-- whole server until the commit: consumption touches none of these rows, and inserted rows announce nothing, because no process
-- has cached them. Payloads are read in db/postgres/invalidations.ts: `keys`, `token-keys`, `contract <id> <organization>`, and
-- `contracts <organization> ...`, or `contracts` alone for too many. They name the organization, so that a stream of one
-- organization learns nothing about others.
CREATE FUNCTION faregate_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('faregate_changes', TG_ARGV[0]);
	RETURN NULL;
END $$;
--> statement-breakpoint
-- The time of last use changes nothing about a key.
CREATE TRIGGER organization_keys_updated AFTER UPDATE ON organization_keys FOR EACH ROW
	WHEN (to_jsonb(OLD) - 'last_used_at' IS DISTINCT FROM to_jsonb(NEW) - 'last_used_at')
	EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
CREATE TRIGGER organization_keys_deleted AFTER DELETE ON organization_keys
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
CREATE TRIGGER users_updated AFTER UPDATE ON users FOR EACH ROW
	WHEN (to_jsonb(OLD) - 'api_key_last_used_at' IS DISTINCT FROM to_jsonb(NEW) - 'api_key_last_used_at')
	EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
CREATE TRIGGER users_deleted AFTER DELETE ON users
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('keys');
--> statement-breakpoint
-- Counts granted use of many contracts: see db/queries/consumption.ts. A contract's stamp is the row versions of the contract and
-- of its levels, in the order of (position, service_id): while it equals the one that the caller decided on, nothing about the
-- contract has changed. Each statement here sees what was committed before it began, so it reads after the lock what the lock protects.
-- Returns a letter per contract, (b)usy, (u)nchanged and counted or (c)hanged, and the row version of the levels that changed.
--
-- One contract takes short statements by primary key: setting up the plan for many took longer than running it.
CREATE FUNCTION faregate_consume(
	contract_ids text[], stamps text[], moving text[], movements json, moment timestamptz
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
-- Planned once a session.
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	held text[];
	contract text := contract_ids[1];
	organization text;
	stamp_now text;
	movement record;
BEGIN
	IF cardinality(contract_ids) = 1 AND json_array_length(movements) <= 4 THEN
		SELECT c.organization_id, c.xmin::text INTO organization, stamp_now
		FROM contracts c WHERE c.id = contract FOR NO KEY UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			outcomes := 'b';
			RETURN NEXT;
			RETURN;
		END IF;
		SELECT stamp_now || coalesce(string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C"), '')
			INTO stamp_now FROM usage_levels u WHERE u.contract_id = contract;
		IF stamp_now <> stamps[1] THEN
			outcomes := 'c';
			RETURN NEXT;
			RETURN;
		END IF;
		FOR movement IN SELECT * FROM json_to_recordset(movements) AS given
			("serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
		LOOP
			INSERT INTO usage_ledger
				(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
			VALUES (contract, organization, movement."serviceId", movement."limitName", 'consume', movement."featureId",
				movement."operationId", movement.amount, moment);
			UPDATE usage_levels u SET consumed = u.consumed + movement.amount
			WHERE u.contract_id = contract AND u.service_id = movement."serviceId" AND u.limit_name = movement."limitName";
		END LOOP;
		outcomes := 'u';
		transaction := pg_current_xact_id_if_assigned()::xid::text;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT coalesce(array_agg(locked.id), '{}') INTO held FROM unnest(moving) AS asked (id) CROSS JOIN LATERAL (
		SELECT c.id FROM contracts c WHERE c.id = asked.id FOR NO KEY UPDATE SKIP LOCKED
	) AS locked;
	RETURN QUERY
	WITH unchanged AS MATERIALIZED (
		SELECT asked.id, found.organization_id
		FROM unnest(contract_ids, stamps) AS asked (id, stamp)
		-- OFFSET 0 keeps the planner from computing the stamps of all contracts there are.
		CROSS JOIN LATERAL (
			SELECT c.organization_id, c.xmin::text || coalesce((
				SELECT string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C")
				FROM usage_levels u WHERE u.contract_id = c.id
			), '') AS stamp
			FROM contracts c WHERE c.id = asked.id OFFSET 0
		) AS found
		WHERE asked.stamp = found.stamp
	), movement AS MATERIALIZED (
		SELECT given.*, unchanged.organization_id FROM json_to_recordset(movements) AS given
			("contractId" text, "serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text)
		JOIN unchanged ON unchanged.id = "contractId"
		WHERE "contractId" = ANY (held)
	), written AS (
		INSERT INTO usage_ledger
			(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
		SELECT "contractId", organization_id, "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment
		FROM movement
	), counted AS (
		UPDATE usage_levels u SET consumed = u.consumed + m.amount
		FROM (
			SELECT "contractId", "serviceId", "limitName", sum(amount) AS amount FROM movement GROUP BY 1, 2, 3
		) m
		WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName"
	)
	SELECT string_agg(
			CASE
				WHEN asked.id = ANY (moving) AND NOT asked.id = ANY (held) THEN 'b'
				WHEN asked.id IN (SELECT id FROM unchanged) THEN 'u'
				ELSE 'c'
			END, '' ORDER BY asked.place),
		pg_current_xact_id_if_assigned()::xid::text
	FROM unnest(contract_ids) WITH ORDINALITY AS asked (id, place);
END $$;
--> statement-breakpoint
-- Current levels of contracts, for db/queries/contract-snapshots.ts: the row versions of the contract and of each level, the
-- consumed amount and the reset moment, in the order of (position, service_id). Levels with open holds add the held amount, the
-- number of holds and the first due moment; levels with a raised threshold add it and its limit. Planned once a session: planning
-- took longer than running it.
CREATE FUNCTION faregate_balances(contract_ids text[]) RETURNS TABLE (id text, version text, levels json)
LANGUAGE plpgsql STABLE SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
	RETURN QUERY
	SELECT asked.id, found.version, found.levels
	FROM unnest(contract_ids) AS asked (id)
	-- A look-up each, however few contracts there are: reading all of them is never the plan.
	CROSS JOIN LATERAL (
		SELECT c.xmin::text AS version, (
			SELECT json_agg(CASE
					WHEN u.alerted_threshold IS NOT NULL THEN json_build_array(u.xmin::text, u.consumed, u.reset_at,
						u.held, u.open_holds, u.hold_due, u.alerted_threshold, u.alerted_limit)
					WHEN u.hold_due IS NULL THEN json_build_array(u.xmin::text, u.consumed, u.reset_at)
					ELSE json_build_array(u.xmin::text, u.consumed, u.reset_at, u.held, u.open_holds, u.hold_due)
				END ORDER BY u.position, u.service_id COLLATE "C")
			FROM usage_levels u WHERE u.contract_id = c.id
		) AS levels
		FROM contracts c WHERE c.id = asked.id OFFSET 0
	) AS found;
END $$;
--> statement-breakpoint
-- Deletes movements and sums with their contract, a row at a time, so that each finds its movements by their index. Waits for a
-- batch of the roll-up that may be adding sums of this contract, and blocks the next one until the deletion has committed. Runs with its
-- owner's rights, because the server itself may not delete there.
CREATE FUNCTION faregate_remove_movements() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	PERFORM 1 FROM usage_rollup FOR SHARE;
	DELETE FROM usage_ledger WHERE contract_id = OLD.id;
	DELETE FROM usage_hours WHERE contract_id = OLD.id;
	DELETE FROM usage_days WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_movements AFTER DELETE ON contracts FOR EACH ROW EXECUTE FUNCTION faregate_remove_movements();
--> statement-breakpoint
-- A new state of a contract deletes those that were over before the ledger begins: no past moment that can be queried was in them.
-- A row at a time, so that each finds its contract's states by their index. Runs with its owner's rights, because the server itself
-- may not delete there.
CREATE FUNCTION faregate_prune_states() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
	begins timestamptz := (SELECT at FROM usage_ledger_start);
BEGIN
	IF begins IS NOT NULL THEN
		DELETE FROM contract_states WHERE contract_id = NEW.contract_id AND id < (
			SELECT id FROM contract_states WHERE contract_id = NEW.contract_id AND since <= begins ORDER BY id DESC LIMIT 1
		);
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contract_states_prune AFTER INSERT ON contract_states FOR EACH ROW EXECUTE FUNCTION faregate_prune_states();
--> statement-breakpoint
-- Tenths of a limit that are consumed: null for a limit that was not computed, 0 for an infinite one.
CREATE FUNCTION faregate_used_tenths(consumed numeric, limit_value numeric) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT (CASE WHEN limit_value IS NULL THEN NULL WHEN consumed = 0 THEN 0 WHEN limit_value = 0 THEN 10
		ELSE least(10, trunc(consumed * 10 / limit_value)) END)::smallint
$$;
--> statement-breakpoint
-- Writes the row a second time when consumption enters another tenth. Computing the column in place was slower: each statement
-- parses the expression of a generated column, and the condition of a trigger, again, for 20 microseconds. A trigger before the
-- update locks the row once more.
CREATE FUNCTION faregate_keep_used_tenths() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.used_tenths IS DISTINCT FROM faregate_used_tenths(NEW.consumed, NEW.limit_value) THEN
		UPDATE usage_levels SET used_tenths = faregate_used_tenths(NEW.consumed, NEW.limit_value)
		WHERE contract_id = NEW.contract_id AND service_id = NEW.service_id AND limit_name = NEW.limit_name;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER usage_levels_inserted_tenths AFTER INSERT ON usage_levels
FOR EACH ROW WHEN (NEW.used_tenths IS NULL AND NEW.limit_value IS NOT NULL) EXECUTE FUNCTION faregate_keep_used_tenths();
--> statement-breakpoint
CREATE TRIGGER usage_levels_updated_tenths AFTER UPDATE OF consumed, limit_value ON usage_levels
FOR EACH ROW EXECUTE FUNCTION faregate_keep_used_tenths();
--> statement-breakpoint
CREATE FUNCTION faregate_announce_organizations(ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF cardinality(ids) > 100 THEN
		PERFORM pg_notify('faregate_changes', 'contracts');
	ELSIF cardinality(ids) > 0 THEN
		PERFORM pg_notify('faregate_changes', 'contracts ' || array_to_string(ids, ' '));
	END IF;
END $$;
--> statement-breakpoint
CREATE FUNCTION faregate_contracts_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM changed LIMIT 101) AS counted) > 100 THEN
		PERFORM faregate_announce_organizations(ARRAY(
			SELECT organization_id FROM changed UNION SELECT organization_id FROM previous LIMIT 101));
	ELSE
		-- A contract that moves leaves one organization and enters another.
		PERFORM pg_notify('faregate_changes', 'contract ' || id || ' ' || organization_id) FROM (
			SELECT id, organization_id FROM changed UNION SELECT id, organization_id FROM previous) AS told;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION faregate_contracts_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM previous LIMIT 101) AS counted) > 100 THEN
		PERFORM faregate_announce_organizations(ARRAY(SELECT DISTINCT organization_id FROM previous LIMIT 101));
	ELSE
		PERFORM pg_notify('faregate_changes', 'contract ' || id || ' ' || organization_id) FROM previous;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
-- Services that are deleted with their contract need no announcement: the contract itself is announced.
CREATE FUNCTION faregate_contract_services_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM changed LIMIT 101) AS counted) > 100 THEN
		PERFORM faregate_announce_organizations(ARRAY(
			SELECT DISTINCT c.organization_id FROM changed JOIN contracts c ON c.id = contract_id LIMIT 101));
	ELSE
		PERFORM pg_notify('faregate_changes', 'contract ' || c.id || ' ' || c.organization_id)
		FROM changed JOIN contracts c ON c.id = contract_id;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION faregate_services_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM faregate_announce_organizations(ARRAY(
		SELECT organization_id FROM changed UNION SELECT organization_id FROM previous LIMIT 101));
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION faregate_services_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM faregate_announce_organizations(ARRAY(SELECT DISTINCT organization_id FROM previous LIMIT 101));
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_updated AFTER UPDATE ON contracts REFERENCING OLD TABLE AS previous NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contracts_updated();
--> statement-breakpoint
CREATE TRIGGER contracts_deleted AFTER DELETE ON contracts REFERENCING OLD TABLE AS previous
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contracts_deleted();
--> statement-breakpoint
CREATE TRIGGER contract_services_updated AFTER UPDATE ON contract_services REFERENCING NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contract_services_changed();
--> statement-breakpoint
CREATE TRIGGER contract_services_deleted AFTER DELETE ON contract_services REFERENCING OLD TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contract_services_changed();
--> statement-breakpoint
CREATE TRIGGER services_updated AFTER UPDATE ON services REFERENCING OLD TABLE AS previous NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_services_updated();
--> statement-breakpoint
CREATE TRIGGER services_deleted AFTER DELETE ON services REFERENCING OLD TABLE AS previous
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_services_deleted();
--> statement-breakpoint
-- Replaces a foreign key, which would look the contract up and lock it again for each hold.
CREATE FUNCTION faregate_remove_holds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM holds WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_holds AFTER DELETE ON contracts FOR EACH ROW EXECUTE FUNCTION faregate_remove_holds();
--> statement-breakpoint
-- Ends open holds, counts amounts of them, and takes holds: see db/queries/holds.ts. Of these contracts only; of all without a
-- list. Returns the ids of holds to end that were not open, separated by commas; null if there are none. Planned once a session, and
-- always by index, because the table may be empty then. No partial index proves the condition on the state: a session that
-- planned while few holds were open would read all open holds of the instance for each settlement.
CREATE FUNCTION faregate_change_holds(ends json, takes json, of_contracts text[]) RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	missed text;
BEGIN
	IF ends IS NOT NULL THEN
		WITH given AS MATERIALIZED (
			SELECT g.* FROM json_to_recordset(ends) AS g
				(id text, "contractId" text, "featureId" text, state text, "endedAt" timestamptz, counted json, amounts json)
			WHERE of_contracts IS NULL OR g."contractId" = ANY (of_contracts)
		), ended AS (
			UPDATE holds h SET state = g.state, ended_at = g."endedAt", counted = nullif(g.counted::text, 'null')::json
			FROM given g WHERE h.id = g.id AND h.state IS NOT DISTINCT FROM 'open'
			RETURNING h.id, g."contractId", h.organization_id, g."featureId", g."endedAt", g.amounts
		), amount AS MATERIALIZED (
			SELECT ended.id, ended."contractId", ended.organization_id, ended."featureId", ended."endedAt", a.*
			FROM ended CROSS JOIN LATERAL json_to_recordset(ended.amounts) AS a
				("serviceId" text, "limitName" text, amount numeric, counted numeric)
		), written AS (
			INSERT INTO usage_ledger
				(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
			SELECT "contractId", organization_id, "serviceId", "limitName", 'consume', "featureId", id, counted, "endedAt"
			FROM amount WHERE counted > 0 ORDER BY "endedAt", id
		), changed AS (
			UPDATE usage_levels u SET
				consumed = u.consumed + m.counted, held = u.held - m.amount, open_holds = u.open_holds - m.holds,
				hold_due = CASE WHEN u.open_holds > m.holds THEN u.hold_due END
			FROM (
				SELECT "contractId", "serviceId", "limitName", sum(amount.amount) AS amount, sum(counted) AS counted, count(*) AS holds
				FROM amount GROUP BY 1, 2, 3
			) m
			WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName"
		)
		SELECT string_agg(given.id, ',') INTO missed FROM given
		WHERE NOT EXISTS (SELECT FROM ended WHERE ended.id = given.id);
	END IF;
	IF takes IS NOT NULL THEN
		WITH given AS MATERIALIZED (
			SELECT g.* FROM json_to_recordset(takes) AS g
				(id text, "contractId" text, "organizationId" text, "featureId" text, "onExpiry" text, "createdAt" timestamptz,
					until timestamptz, amounts json)
			WHERE of_contracts IS NULL OR g."contractId" = ANY (of_contracts)
		), written AS (
			INSERT INTO holds (id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until)
			SELECT id, "contractId", "organizationId", "featureId", amounts, "onExpiry", 'open', "createdAt", until FROM given
		)
		UPDATE usage_levels u SET
			held = u.held + m.amount, open_holds = u.open_holds + m.holds, hold_due = least(u.hold_due, m.due)
		FROM (
			SELECT g."contractId", a."serviceId", a."limitName", sum(a.amount) AS amount, count(*) AS holds, min(g.until) AS due
			FROM given g CROSS JOIN LATERAL json_to_recordset(g.amounts) AS a ("serviceId" text, "limitName" text, amount numeric)
			GROUP BY 1, 2, 3
		) m
		WHERE u.contract_id = m."contractId" AND u.service_id = m."serviceId" AND u.limit_name = m."limitName";
	END IF;
	RETURN missed;
END $$;
--> statement-breakpoint
-- Processes cache thresholds with contracts.
CREATE FUNCTION faregate_alerts_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM faregate_announce_organizations(ARRAY[NEW.id]);
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER organizations_alerts AFTER UPDATE OF usage_thresholds ON organizations FOR EACH ROW
	WHEN (OLD.usage_thresholds::text IS DISTINCT FROM NEW.usage_thresholds::text)
	EXECUTE FUNCTION faregate_alerts_updated();
--> statement-breakpoint
CREATE TRIGGER token_keys_changed AFTER INSERT OR UPDATE OR DELETE ON token_keys
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('token-keys');
--> statement-breakpoint
-- Writers compare last_value with settled_seq, under whatever role the server has.
GRANT SELECT ON SEQUENCE "outbox_staged_seq_seq" TO PUBLIC;
--> statement-breakpoint
-- Records events in the caller's transaction, see db/queries/outbox.ts. Returns the id of the last; null if they are staged.
-- While a staged event may lack its id, an id taken now could overtake that of an earlier event of the same contract. One look-up
-- of the sequence detects that: looking for staged rows would read all those that vacuum has not removed yet.
CREATE FUNCTION faregate_record_events(events json) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
	last bigint;
BEGIN
	SELECT last_id INTO last FROM outbox_counter WHERE settled_seq = (SELECT last_value FROM outbox_staged_seq_seq)
	FOR NO KEY UPDATE SKIP LOCKED;
	IF FOUND THEN
		INSERT INTO outbox (id, organization_id, code, details)
		SELECT last + 1 + position, organization_id, code, details FROM json_to_recordset(events)
			AS given (position integer, organization_id text, code text, details json);
		UPDATE outbox_counter SET last_id = last + json_array_length(events) RETURNING last_id INTO last;
		RETURN last;
	END IF;
	-- The transaction has its id before the events have their seq: faregate_number_events relies on it.
	PERFORM pg_current_xact_id();
	INSERT INTO outbox_staged (organization_id, code, details)
	SELECT organization_id, code, details FROM json_to_recordset(events)
		AS given (position integer, organization_id text, code text, details json)
	ORDER BY position;
	RETURN NULL;
END $$;
--> statement-breakpoint
-- Gives ids to the oldest committed events that are staged, at most "batch", and moves them to the outbox. Returns their number.
-- A seq is settled in two steps, because a transaction that has taken a lower one may still commit. "settling_seq" is the newest
-- seq before an earlier call took its own transaction id, "settling_until": once all older transactions have ended, no event up
-- to it can appear any more. A transaction that has its id already settles nothing. A restored database may begin its transaction
-- ids or its sequence again below these columns: no older transaction is running then, and all rows are read.
CREATE FUNCTION faregate_number_events(batch integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off AS $$
DECLARE
	can_settle boolean := pg_current_xact_id_if_assigned() IS NULL;
	newest bigint := (SELECT last_value FROM outbox_staged_seq_seq);
	counter outbox_counter;
	running pg_snapshot;
	numbered integer;
BEGIN
	IF EXISTS (SELECT FROM outbox_counter WHERE settled_seq = newest) THEN
		RETURN 0;
	END IF;
	SELECT * INTO STRICT counter FROM outbox_counter FOR NO KEY UPDATE;
	running := pg_current_snapshot();
	WITH moved AS (
		DELETE FROM outbox_staged WHERE seq IN (
			SELECT seq FROM outbox_staged WHERE seq > CASE WHEN newest > counter.settled_seq THEN counter.settled_seq ELSE 0 END
			ORDER BY seq LIMIT batch
		) RETURNING *
	)
	INSERT INTO outbox (id, organization_id, code, details, created_at)
	SELECT counter.last_id + row_number() OVER (ORDER BY seq), organization_id, code, details, created_at FROM moved;
	GET DIAGNOSTICS numbered = ROW_COUNT;
	IF can_settle AND numbered < batch AND (counter.settling_until <= pg_snapshot_xmin(running)
		OR counter.settling_until > pg_snapshot_xmax(running)) THEN
		UPDATE outbox_counter SET last_id = last_id + numbered, settled_seq = settling_seq,
			settling_seq = newest, settling_until = pg_current_xact_id();
	ELSIF numbered > 0 THEN
		UPDATE outbox_counter SET last_id = last_id + numbered;
	END IF;
	RETURN numbered;
END $$;
--> statement-breakpoint
-- Fills in the organization from the row's parent, for statements that do not pass it.
CREATE FUNCTION faregate_fill_organization() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	CASE TG_ARGV[0]
		WHEN 'contract' THEN SELECT organization_id INTO NEW.organization_id FROM contracts WHERE id = NEW.contract_id;
		WHEN 'service' THEN SELECT organization_id INTO NEW.organization_id FROM services WHERE id = NEW.service_id;
		WHEN 'change' THEN SELECT organization_id INTO NEW.organization_id FROM scheduled_changes WHERE id = NEW.change_id;
		WHEN 'endpoint' THEN SELECT organization_id INTO NEW.organization_id FROM webhook_endpoints WHERE id = NEW.endpoint_id;
		WHEN 'instance' THEN NEW.organization_id := '';
	END CASE;
	RETURN NEW;
END $$;
--> statement-breakpoint
DO $$
DECLARE
	filled record;
BEGIN
	FOR filled IN SELECT * FROM (VALUES
		('contract', 'contract_services'), ('contract', 'contract_overrides'), ('contract', 'contract_history'),
		('contract', 'contract_states'), ('contract', 'usage_levels'), ('contract', 'usage_ledger'), ('contract', 'usage_resets'),
		('contract', 'holds'), ('service', 'pricings'), ('service', 'deleted_pricings'), ('change', 'scheduled_subscriptions'),
		('endpoint', 'webhook_deliveries'), ('instance', 'audit_log')
	) AS given (parent, name) LOOP
		EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON %I FOR EACH ROW WHEN (NEW.organization_id IS NULL)
			EXECUTE FUNCTION faregate_fill_organization(%L)', filled.name || '_organization', filled.name, filled.parent);
	END LOOP;
END $$;
--> statement-breakpoint
-- Gives a service to another organization, with contracts that have no other service, and with all rows of both. One statement,
-- because foreign keys are checked at its end. Changes of other contracts keep only the names of the service, and those of the
-- moved contracts the names of other services. Runs with its owner's rights, because the server itself may not change movements and
-- states. Call it with service and contracts locked, once no other contract has the service.
CREATE FUNCTION faregate_move_service(moved text, contract_ids text[], target text, moment timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	-- Waits for a batch of the roll-up that may be adding sums under the old organization; see faregate_remove_movements.
	PERFORM 1 FROM usage_rollup FOR SHARE;
	WITH subscriptions AS (
		UPDATE scheduled_subscriptions x SET
			organization_id = CASE WHEN s.contract_id = ANY (contract_ids) THEN target ELSE x.organization_id END,
			service_id = CASE WHEN (x.service_id = moved) = (s.contract_id = ANY (contract_ids)) THEN x.service_id END,
			pricing_id = CASE WHEN (x.service_id = moved) = (s.contract_id = ANY (contract_ids)) THEN x.pricing_id END
		FROM scheduled_changes s WHERE s.id = x.change_id AND (x.service_id = moved OR s.contract_id = ANY (contract_ids))
	), changes AS (
		UPDATE scheduled_changes SET organization_id = target WHERE service_id = moved OR contract_id = ANY (contract_ids)
	), versions AS (
		UPDATE pricings SET organization_id = target WHERE service_id = moved
	), deleted_versions AS (
		UPDATE deleted_pricings SET organization_id = target WHERE service_id = moved
	), subscribers AS (
		UPDATE contracts SET organization_id = target, updated_at = moment WHERE id = ANY (contract_ids)
	), contracted AS (
		UPDATE contract_services SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), overrides AS (
		UPDATE contract_overrides SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), history AS (
		UPDATE contract_history SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), states AS (
		UPDATE contract_states SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), levels AS (
		UPDATE usage_levels SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), resets AS (
		UPDATE usage_resets SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), movements AS (
		UPDATE usage_ledger SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), hours AS (
		UPDATE usage_hours SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), days AS (
		UPDATE usage_days SET organization_id = target WHERE contract_id = ANY (contract_ids)
	), held AS (
		UPDATE holds SET organization_id = target WHERE contract_id = ANY (contract_ids)
	)
	UPDATE services SET organization_id = target, updated_at = moment WHERE id = moved;
END $$;
--> statement-breakpoint
REVOKE ALL ON FUNCTION faregate_move_service(text, text[], text, timestamptz) FROM PUBLIC;
--> statement-breakpoint
-- Counts granted use, takes holds and ends them, in one statement for all balances that change; faregate_consume, which only
-- counts, is faster where nothing is held. Writes a contract only if its stamp equals the given one; `outcomes` has a letter per contract,
-- as there. Moments in JSON are milliseconds since 1970, which are faster to write and to read than text. Fails with FH001, and the
-- ids in its message, if a hold to end has ended or was extended since the caller decided.
CREATE FUNCTION faregate_consume_or_hold(
	contract_ids text[], stamps text[], moving text[], changes json, ends json, takes json, moment timestamptz
) RETURNS TABLE (outcomes text, transaction text) LANGUAGE plpgsql
-- Planned once a session, maybe while the tables are empty.
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	locked text[];
	-- Contracts to write, or null for all of them.
	written text[];
	missed text;
BEGIN
	SELECT coalesce(array_agg(c.id), '{}') INTO locked FROM unnest(moving) AS asked (id) CROSS JOIN LATERAL (
		SELECT c.id FROM contracts c WHERE c.id = asked.id FOR NO KEY UPDATE SKIP LOCKED
	) AS c;
	SELECT string_agg(CASE
			WHEN asked.id = ANY (moving) AND NOT asked.id = ANY (locked) THEN 'b'
			WHEN asked.stamp = (
				SELECT c.xmin::text || coalesce((
					SELECT string_agg(' ' || u.xmin::text, '' ORDER BY u.position, u.service_id COLLATE "C")
					FROM usage_levels u WHERE u.contract_id = c.id
				), '')
				FROM contracts c WHERE c.id = asked.id
			) THEN 'u'
			ELSE 'c'
		END, '' ORDER BY asked.place)
		INTO outcomes FROM unnest(contract_ids, stamps) WITH ORDINALITY AS asked (id, stamp, place);
	IF outcomes ~ '[bc]' THEN
		SELECT coalesce(array_agg(asked.id), '{}') INTO written
		FROM unnest(contract_ids, string_to_array(outcomes, NULL)) AS asked (id, outcome) WHERE asked.outcome = 'u';
	END IF;
	WITH change AS MATERIALIZED (
		SELECT * FROM json_to_recordset(changes) AS given
			("contractId" text, "organizationId" text, "serviceId" text, "limitName" text, "featureId" text, "operationId" text,
				amount numeric, held numeric, "openHolds" integer, "holdDue" float8)
		WHERE written IS NULL OR "contractId" = ANY (written)
	), movement AS (
		INSERT INTO usage_ledger
			(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
		SELECT "contractId", "organizationId", "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment
		FROM change WHERE amount IS NOT NULL
	), given AS MATERIALIZED (
		SELECT * FROM json_to_recordset(ends) AS given
			(id text, "contractId" text, until float8, state text, counted json)
		WHERE written IS NULL OR "contractId" = ANY (written)
	), ended AS (
		-- No partial index proves this condition on the state: a session that planned while few holds were open would read all of them.
		UPDATE holds h SET state = given.state, ended_at = moment, counted = nullif(given.counted::text, 'null')::json
		FROM given WHERE h.id = given.id AND h.until = to_timestamp(given.until / 1000) AND h.state IS NOT DISTINCT FROM 'open'
		RETURNING h.id
	), missing AS MATERIALIZED (
		SELECT id FROM given WHERE id NOT IN (SELECT id FROM ended)
	), balance AS (
		UPDATE usage_levels u SET
			consumed = u.consumed + c.amount, held = u.held + c.held, open_holds = u.open_holds + c.holds,
			hold_due = CASE WHEN u.open_holds + c.holds > 0 THEN least(u.hold_due, c.due) END
		FROM (
			SELECT "contractId", "serviceId", "limitName", coalesce(sum(amount), 0) AS amount, coalesce(sum(held), 0) AS held,
				coalesce(sum("openHolds"), 0) AS holds, to_timestamp(min("holdDue") / 1000) AS due
			-- With a hold missing, a balance could fall below zero, and fail with another error than FH001.
			FROM change WHERE NOT EXISTS (SELECT FROM missing) GROUP BY 1, 2, 3
		) c
		WHERE u.contract_id = c."contractId" AND u.service_id = c."serviceId" AND u.limit_name = c."limitName"
	), taken AS (
		INSERT INTO holds (id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until)
		SELECT id, "contractId", "organizationId", "featureId", amounts, "onExpiry", 'open', moment, to_timestamp(until / 1000)
		FROM json_to_recordset(takes) AS given
			(id text, "contractId" text, "organizationId" text, "featureId" text, "onExpiry" text, until float8, amounts json)
		WHERE written IS NULL OR "contractId" = ANY (written)
	)
	SELECT string_agg(id, ',') INTO missed FROM missing;
	IF missed IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'FH001', MESSAGE = missed;
	END IF;
	transaction := pg_current_xact_id_if_assigned()::xid::text;
	RETURN NEXT;
END $$;
