-- A function only: it locks nothing, and what ran before this migration goes on working beside it.
--
-- The levels of contracts as they are now, for db/subjects.ts: the row versions of the contract and of each level, what was
-- consumed, and the reset moment, in the order of (position, service_id). Planned once a session: planning this took longer
-- than running it.
CREATE FUNCTION faregate_balances(contract_ids text[]) RETURNS TABLE (id text, version text, levels json)
LANGUAGE plpgsql STABLE SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
	RETURN QUERY
	SELECT asked.id, found.version, found.levels
	FROM unnest(contract_ids) AS asked (id)
	-- A look-up each, however few contracts there are: reading all of them is never the plan.
	CROSS JOIN LATERAL (
		SELECT c.xmin::text AS version, (
			SELECT json_agg(json_build_array(u.xmin::text, u.consumed, u.reset_at)
				ORDER BY u.position, u.service_id COLLATE "C")
			FROM usage_levels u WHERE u.contract_id = c.id
		) AS levels
		FROM contracts c WHERE c.id = asked.id OFFSET 0
	) AS found;
END $$;
