-- Members of contracts, and the limit that counts them. Locks `contracts` and `usage_levels` for the time of a column each, without
-- rewriting them, and `contracts` for two triggers.
CREATE TABLE "contract_members" (
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"member_id" text NOT NULL,
	"name" text,
	"place" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "contract_members_pk" PRIMARY KEY("contract_id","member_id","organization_id")
);
--> statement-breakpoint
ALTER TABLE "contracts" ADD COLUMN "member_count" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_levels" ADD COLUMN "counts_members" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "contract_members_place_idx" ON "contract_members" USING btree ("contract_id","place");--> statement-breakpoint
CREATE INDEX "contract_members_member_idx" ON "contract_members" USING btree ("organization_id","member_id");
--> statement-breakpoint
-- Replaces a foreign key, which would look the contract up and lock it again for each member.
CREATE FUNCTION faregate_remove_members() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM contract_members WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_members AFTER DELETE ON contracts FOR EACH ROW
	WHEN (OLD.member_count > 0) EXECUTE FUNCTION faregate_remove_members();
--> statement-breakpoint
-- Members go along with a contract that moves to another organization.
CREATE FUNCTION faregate_move_members() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE contract_members SET organization_id = NEW.organization_id WHERE contract_id = NEW.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_members_moved AFTER UPDATE OF organization_id ON contracts FOR EACH ROW
	WHEN (OLD.organization_id IS DISTINCT FROM NEW.organization_id AND OLD.member_count > 0)
	EXECUTE FUNCTION faregate_move_members();
