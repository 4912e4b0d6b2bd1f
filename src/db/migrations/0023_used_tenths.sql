-- On "usage_levels" columns without a default and two triggers: ACCESS EXCLUSIVE for a moment. Two indexes, whose builds block
-- consumption: on a large table add the columns and create the indexes by hand before, these with CONCURRENTLY. What ran before
-- this migration goes on beside it; a contract whose plan it changes keeps the limits of the old plan until its next change.
ALTER TABLE "usage_levels" ADD COLUMN IF NOT EXISTS "limit_value" numeric;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN IF NOT EXISTS "used_tenths" smallint;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_levels_near_idx" ON "usage_levels" USING btree ("service_id","used_tenths") WHERE "usage_levels"."used_tenths" > 0;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "usage_levels_unfilled_idx" ON "usage_levels" USING btree ("service_id") WHERE "usage_levels"."limit_value" is null;
--> statement-breakpoint
-- Tenths of a limit that are consumed. A null limit is one that was not computed; an infinite one is never approached.
CREATE FUNCTION faregate_used_tenths(consumed numeric, limit_value numeric) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT (CASE WHEN limit_value IS NULL THEN NULL WHEN consumed = 0 THEN 0 WHEN limit_value = 0 THEN 10
		ELSE least(10, trunc(consumed * 10 / limit_value)) END)::smallint
$$;
--> statement-breakpoint
-- Writes the row a second time when consumption enters another tenth. Computing the column in place was slower: the expression
-- of a generated column, and the condition of a trigger, are parsed anew by each statement, for 20 microseconds. A trigger
-- before the update locks the row once more.
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
