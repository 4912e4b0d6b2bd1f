-- Columns without a default: ACCESS EXCLUSIVE on "organizations" and "usage_levels" for a moment. What ran before this migration
-- goes on beside it, and raises no thresholds.
ALTER TABLE "organizations" ADD COLUMN "usage_thresholds" json;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "alerted_threshold" integer;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "alerted_limit" numeric;--> statement-breakpoint
-- As before, and of levels with a raised threshold also that and the limit then.
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
-- Processes cache thresholds with contracts.
CREATE FUNCTION faregate_alerts_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM faregate_tell_organizations(ARRAY[NEW.id]);
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER organizations_alerts AFTER UPDATE OF usage_thresholds ON organizations FOR EACH ROW
	WHEN (OLD.usage_thresholds::text IS DISTINCT FROM NEW.usage_thresholds::text)
	EXECUTE FUNCTION faregate_alerts_updated();
