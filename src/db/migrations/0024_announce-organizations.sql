-- Triggers and functions only: what ran before this migration goes on working beside it, because it reads the first words of
-- a payload. Replacing a trigger takes an exclusive lock of its table for a moment.
--
-- Announcements name the organization, so that a stream of one organization learns nothing about others. The payloads are
-- `contract <id> <organization>` and `contracts <organization> …`, or `contracts` alone when there are too many. They are
-- read in db/postgres/invalidations.ts. Rows that are only added announce nothing.
CREATE FUNCTION faregate_tell_organizations(ids text[]) RETURNS void LANGUAGE plpgsql AS $$
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
		PERFORM faregate_tell_organizations(ARRAY(
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
		PERFORM faregate_tell_organizations(ARRAY(SELECT DISTINCT organization_id FROM previous LIMIT 101));
	ELSE
		PERFORM pg_notify('faregate_changes', 'contract ' || id || ' ' || organization_id) FROM previous;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
-- The services of a contract that is deleted go with it: then the contract itself is announced.
CREATE FUNCTION faregate_contract_services_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM changed LIMIT 101) AS counted) > 100 THEN
		PERFORM faregate_tell_organizations(ARRAY(
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
	PERFORM faregate_tell_organizations(ARRAY(
		SELECT organization_id FROM changed UNION SELECT organization_id FROM previous LIMIT 101));
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION faregate_services_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM faregate_tell_organizations(ARRAY(SELECT DISTINCT organization_id FROM previous LIMIT 101));
	RETURN NULL;
END $$;
--> statement-breakpoint
DROP TRIGGER contracts_updated ON contracts;
--> statement-breakpoint
CREATE TRIGGER contracts_updated AFTER UPDATE ON contracts REFERENCING OLD TABLE AS previous NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contracts_updated();
--> statement-breakpoint
DROP TRIGGER contracts_deleted ON contracts;
--> statement-breakpoint
CREATE TRIGGER contracts_deleted AFTER DELETE ON contracts REFERENCING OLD TABLE AS previous
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contracts_deleted();
--> statement-breakpoint
DROP TRIGGER contract_services_updated ON contract_services;
--> statement-breakpoint
CREATE TRIGGER contract_services_updated AFTER UPDATE ON contract_services REFERENCING NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contract_services_changed();
--> statement-breakpoint
DROP TRIGGER contract_services_deleted ON contract_services;
--> statement-breakpoint
CREATE TRIGGER contract_services_deleted AFTER DELETE ON contract_services REFERENCING OLD TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_contract_services_changed();
--> statement-breakpoint
DROP TRIGGER services_changed ON services;
--> statement-breakpoint
CREATE TRIGGER services_updated AFTER UPDATE ON services REFERENCING OLD TABLE AS previous NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_services_updated();
--> statement-breakpoint
CREATE TRIGGER services_deleted AFTER DELETE ON services REFERENCING OLD TABLE AS previous
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_services_deleted();
