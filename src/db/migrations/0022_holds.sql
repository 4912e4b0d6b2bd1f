-- A new table. On "usage_levels" columns with constant defaults and constraints that old rows are not checked against: ACCESS
-- EXCLUSIVE for a moment; on "contracts" SHARE ROW EXCLUSIVE for a moment. What ran before this migration goes on beside it, but
-- counts nothing as held.
CREATE TABLE "holds" (
	"id" text PRIMARY KEY NOT NULL,
	"contract_id" text NOT NULL,
	"kind" text DEFAULT 'hold' NOT NULL,
	"feature_id" text NOT NULL,
	"amounts" json NOT NULL,
	"on_expiry" text NOT NULL,
	"state" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"until" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"counted" json,
	CONSTRAINT "holds_kind_known" CHECK ("holds"."kind" in ('hold', 'lease')),
	CONSTRAINT "holds_state_known" CHECK ("holds"."state" in ('open', 'settled', 'released', 'expired')),
	CONSTRAINT "holds_expiry_known" CHECK ("holds"."on_expiry" in ('release', 'consume')),
	CONSTRAINT "holds_ended_whole" CHECK (("holds"."state" = 'open') = ("holds"."ended_at" is null))
);
--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "held" numeric DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "open_holds" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "hold_due" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "holds" ADD CONSTRAINT "holds_contract_fk" FOREIGN KEY ("contract_id") REFERENCES "public"."contracts"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "holds_contract_idx" ON "holds" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "holds_open_idx" ON "holds" USING btree ("contract_id","until") WHERE "holds"."state" = 'open';--> statement-breakpoint
CREATE INDEX "holds_due_idx" ON "holds" USING btree ("until") WHERE "holds"."state" = 'open';--> statement-breakpoint
ALTER TABLE "usage_levels" ADD CONSTRAINT "usage_levels_held_not_negative" CHECK ("usage_levels"."held" >= 0) NOT VALID;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD CONSTRAINT "usage_levels_held_whole" CHECK (("usage_levels"."open_holds" = 0) = ("usage_levels"."hold_due" is null)) NOT VALID;--> statement-breakpoint
-- As before, and of levels with open holds also the amount held, the number of holds, and when the first may end.
CREATE OR REPLACE FUNCTION faregate_balances(contract_ids text[]) RETURNS TABLE (id text, version text, levels json)
LANGUAGE plpgsql STABLE SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
	RETURN QUERY
	SELECT asked.id, found.version, found.levels
	FROM unnest(contract_ids) AS asked (id)
	-- A look-up each, however few contracts there are: reading all of them is never the plan.
	CROSS JOIN LATERAL (
		SELECT c.xmin::text AS version, (
			SELECT json_agg(CASE
					WHEN u.hold_due IS NULL THEN json_build_array(u.xmin::text, u.consumed, u.reset_at)
					ELSE json_build_array(u.xmin::text, u.consumed, u.reset_at, u.held, u.open_holds, u.hold_due)
				END ORDER BY u.position, u.service_id COLLATE "C")
			FROM usage_levels u WHERE u.contract_id = c.id
		) AS levels
		FROM contracts c WHERE c.id = asked.id OFFSET 0
	) AS found;
END $$;
