-- Subscriptions of scheduled changes name their contract. Locks `scheduled_subscriptions` while each row gets it, which takes
-- seconds for a million rows.
ALTER TABLE "scheduled_subscriptions" ADD COLUMN "contract_id" text;--> statement-breakpoint
-- Processes of the release before leave the contract out.
CREATE FUNCTION faregate_fill_contract() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	SELECT contract_id INTO NEW.contract_id FROM scheduled_changes WHERE id = NEW.change_id;
	RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER scheduled_subscriptions_contract BEFORE INSERT ON scheduled_subscriptions FOR EACH ROW
	WHEN (NEW.contract_id IS NULL) EXECUTE FUNCTION faregate_fill_contract();
--> statement-breakpoint
UPDATE scheduled_subscriptions x SET contract_id = s.contract_id FROM scheduled_changes s
	WHERE s.id = x.change_id AND x.contract_id IS NULL;
