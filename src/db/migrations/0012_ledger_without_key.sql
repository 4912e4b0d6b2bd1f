-- ACCESS EXCLUSIVE on "usage_ledger" and "contracts" for a moment. The key looked the contract up and locked it again for each
-- row that was written, though nobody writes a movement who does not hold the contract already: a seventh of what counting on
-- a hot contract took. What ran before this migration goes on beside it.
ALTER TABLE "usage_ledger" DROP CONSTRAINT "usage_ledger_contract_fk";
--> statement-breakpoint
-- What the key did when a contract goes; a row at a time, so that each finds its movements by their index. Its owner's rights,
-- because the server itself may not delete there.
CREATE FUNCTION faregate_remove_movements() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	DELETE FROM usage_ledger WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_movements AFTER DELETE ON contracts FOR EACH ROW EXECUTE FUNCTION faregate_remove_movements();
