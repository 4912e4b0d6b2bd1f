-- Budgets of contracts, and the spender of each movement and hold. Locks `contracts`, `holds` and `usage_ledger` for the time of new
-- columns, which rewrite nothing, and of two triggers.
CREATE TABLE "budget_balances" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"budget" text NOT NULL,
	"spender" text NOT NULL,
	"used" numeric DEFAULT 0 NOT NULL,
	"held" numeric DEFAULT 0 NOT NULL,
	"since" timestamp (3) with time zone NOT NULL,
	"alerted_threshold" integer,
	"alerted_limit" numeric,
	CONSTRAINT "budget_balances_pk" PRIMARY KEY("contract_id","budget","spender","organization_id"),
	CONSTRAINT "budget_balances_not_negative" CHECK ("budget_balances"."used" >= 0 and "budget_balances"."held" >= 0)
);
--> statement-breakpoint
CREATE TABLE "contract_budgets" (
	"id" text NOT NULL,
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"name" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"spender" text,
	"unit" text,
	"amount" json NOT NULL,
	"span" json NOT NULL,
	"mode" text NOT NULL,
	"ends_at" timestamp (3) with time zone,
	"thresholds" json NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "contract_budgets_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "contract_budgets_name_unique" UNIQUE("contract_id","name","organization_id"),
	CONSTRAINT "contract_budgets_mode_known" CHECK ("contract_budgets"."mode" in ('stop', 'warn'))
);
--> statement-breakpoint
ALTER TABLE "contracts" ADD COLUMN "has_budgets" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "holds" ADD COLUMN "spender" text;--> statement-breakpoint
ALTER TABLE "holds" ADD COLUMN "budgets" json;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "spender" text;--> statement-breakpoint
ALTER TABLE "usage_ledger" ADD COLUMN "budgets" json;--> statement-breakpoint
CREATE INDEX "budget_balances_held_idx" ON "budget_balances" USING btree ("contract_id") WHERE "budget_balances"."held" > 0;
--> statement-breakpoint
ALTER TABLE "usage_ledger_next" ADD COLUMN "spender" text;--> statement-breakpoint
ALTER TABLE "usage_ledger_next" ADD COLUMN "budgets" json;
--> statement-breakpoint
-- The swap of a compaction copies late movements column by column.
DO $$
DECLARE
	definition text := pg_get_functiondef('faregate_swap_ledger'::regproc);
BEGIN
	EXECUTE replace(definition, 'late_amount, renamed_feature_id', 'late_amount, renamed_feature_id, spender, budgets');
END $$;
--> statement-breakpoint
-- Replaces foreign keys, which would look the contract up and lock it again for each balance.
CREATE FUNCTION faregate_remove_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM budget_balances WHERE contract_id = OLD.id;
	DELETE FROM contract_budgets WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_budgets AFTER DELETE ON contracts FOR EACH ROW EXECUTE FUNCTION faregate_remove_budgets();
--> statement-breakpoint
-- Budgets go along with a contract that moves to another organization.
CREATE FUNCTION faregate_move_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE budget_balances SET organization_id = NEW.organization_id WHERE contract_id = NEW.id;
	UPDATE contract_budgets SET organization_id = NEW.organization_id WHERE contract_id = NEW.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_budgets_moved AFTER UPDATE OF organization_id ON contracts FOR EACH ROW
	WHEN (OLD.organization_id IS DISTINCT FROM NEW.organization_id) EXECUTE FUNCTION faregate_move_budgets();
--> statement-breakpoint
-- As before, with the spender of holds, and the balances of budgets that a counted amount moves.
CREATE OR REPLACE FUNCTION faregate_change_holds(ends json, takes json, of_contracts text[]) RETURNS text LANGUAGE plpgsql
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
			RETURNING h.id, g."contractId", h.organization_id, g."featureId", g."endedAt", g.amounts, h.spender
		), amount AS MATERIALIZED (
			SELECT ended.id, ended."contractId", ended.organization_id, ended."featureId", ended."endedAt", ended.spender, a.*
			FROM ended CROSS JOIN LATERAL json_to_recordset(ended.amounts) AS a
				("serviceId" text, "limitName" text, amount numeric, counted numeric, budgets json)
		), written AS (
			INSERT INTO usage_ledger
				(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at,
					spender, budgets)
			SELECT "contractId", organization_id, "serviceId", "limitName", 'consume', "featureId", id, counted, "endedAt",
				spender, budgets
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
					until timestamptz, amounts json, spender text, budgets json)
			WHERE of_contracts IS NULL OR g."contractId" = ANY (of_contracts)
		), written AS (
			INSERT INTO holds
				(id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until, spender, budgets)
			SELECT id, "contractId", "organizationId", "featureId", amounts, "onExpiry", 'open', "createdAt", until, spender, budgets
			FROM given
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
-- Counts granted use, takes holds and ends them as faregate_consume_or_hold does, and moves the balances of budgets with them. A
-- balance whose window is over begins anew with the amount. Without `balances`, they follow from the movements that name them, and no
-- threshold is raised. The stamp covers these balances, too: none of them moves without a level.
CREATE FUNCTION faregate_spend(
	contract_ids text[], stamps text[], moving text[], changes json, ends json, takes json, balances json, moment timestamptz
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
				amount numeric, held numeric, "openHolds" integer, "holdDue" float8, spender text, budgets json)
		WHERE written IS NULL OR "contractId" = ANY (written)
	), movement AS (
		INSERT INTO usage_ledger
			(contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at, spender,
				budgets)
		SELECT "contractId", "organizationId", "serviceId", "limitName", 'consume', "featureId", "operationId", amount, moment, spender,
			budgets
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
		INSERT INTO holds
			(id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until, spender, budgets)
		SELECT id, "contractId", "organizationId", "featureId", amounts, "onExpiry", 'open', moment, to_timestamp(until / 1000), spender,
			budgets
		FROM json_to_recordset(takes) AS given
			(id text, "contractId" text, "organizationId" text, "featureId" text, "onExpiry" text, until float8, amounts json,
				spender text, budgets json)
		WHERE written IS NULL OR "contractId" = ANY (written)
	), moved AS (
		SELECT "contractId", "organizationId", budget, spender, used, held, since, "alertedThreshold", "alertedLimit", false AS keeps_alert
		FROM json_to_recordset(balances) AS given
			("contractId" text, "organizationId" text, budget text, spender text, used numeric, held numeric, since float8,
				"alertedThreshold" integer, "alertedLimit" numeric)
		WHERE written IS NULL OR "contractId" = ANY (written)
		UNION ALL
		SELECT "contractId", "organizationId", part ->> 0, part ->> 1, sum((part ->> 2)::numeric), 0, max((part ->> 3)::float8), null, null, true
		FROM change CROSS JOIN LATERAL json_array_elements(budgets) AS part
		WHERE balances IS NULL GROUP BY 1, 2, 3, 4
	), budgeted AS (
		INSERT INTO budget_balances
			(contract_id, organization_id, budget, spender, used, held, since, alerted_threshold, alerted_limit)
		-- Sums are computed before the conflict: a constraint would refuse a row that only takes away.
		SELECT "contractId", "organizationId", given.budget, given.spender,
			CASE WHEN b.since = to_timestamp(given.since / 1000) THEN b.used ELSE 0 END + given.used, coalesce(b.held, 0) + given.held,
			to_timestamp(given.since / 1000),
			CASE WHEN NOT keeps_alert THEN "alertedThreshold" WHEN b.since = to_timestamp(given.since / 1000) THEN b.alerted_threshold END,
			CASE WHEN NOT keeps_alert THEN "alertedLimit" WHEN b.since = to_timestamp(given.since / 1000) THEN b.alerted_limit END
		FROM moved AS given
		LEFT JOIN budget_balances b
			ON b.contract_id = "contractId" AND b.budget = given.budget AND b.spender = given.spender
		WHERE NOT EXISTS (SELECT FROM missing)
		ON CONFLICT (contract_id, budget, spender, organization_id) DO UPDATE SET
			used = excluded.used, held = excluded.held, since = excluded.since,
			alerted_threshold = excluded.alerted_threshold, alerted_limit = excluded.alerted_limit
	)
	SELECT string_agg(id, ',') INTO missed FROM missing;
	IF missed IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'FH001', MESSAGE = missed;
	END IF;
	transaction := pg_current_xact_id_if_assigned()::xid::text;
	RETURN NEXT;
END $$;
