-- SHARE ROW EXCLUSIVE on "contract_states" for a moment: changes of contracts wait. What ran before goes on beside it.
--
-- A contract that comes into another state forgets those that were over before the ledger begins: no past moment that can be
-- asked about was in them. A row at a time, so that each finds its contract's states by their index. Its owner's rights,
-- because the server itself may not delete there.
CREATE FUNCTION faregate_forget_states() RETURNS trigger
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
CREATE TRIGGER contract_states_forget AFTER INSERT ON contract_states FOR EACH ROW EXECUTE FUNCTION faregate_forget_states();
