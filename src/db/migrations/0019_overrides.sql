-- A new table. On "contract_states" a column without a default: ACCESS EXCLUSIVE for a moment. What ran before this migration
-- goes on beside it, and evaluates without overrides. States that it records lack them, so past moments that follow are refused
-- as incomplete for contracts with overrides, until their next change.
CREATE TABLE "contract_overrides" (
	"contract_id" text NOT NULL,
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
	CONSTRAINT "contract_overrides_pk" PRIMARY KEY("contract_id","service_id","kind","name"),
	CONSTRAINT "contract_overrides_kind_known" CHECK ("contract_overrides"."kind" in ('features', 'usageLimits')),
	CONSTRAINT "contract_overrides_mode_known" CHECK ("contract_overrides"."mode" in ('set', 'add'))
);
--> statement-breakpoint
ALTER TABLE "contract_states" ADD COLUMN "overrides" json;--> statement-breakpoint
ALTER TABLE "contract_overrides" ADD CONSTRAINT "contract_overrides_contract_service_fk" FOREIGN KEY ("contract_id","service_id") REFERENCES "public"."contract_services"("contract_id","service_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "contract_overrides_end_idx" ON "contract_overrides" USING btree ("ends_at") WHERE not "contract_overrides"."end_announced";--> statement-breakpoint
CREATE INDEX "contract_overrides_service_idx" ON "contract_overrides" USING btree ("service_id");