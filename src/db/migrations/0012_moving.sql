ALTER TABLE "organizations" ADD COLUMN "frozen_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "moved_to" text;--> statement-breakpoint
-- Rows of keys in the memory of processes have the move of their organization.
CREATE TRIGGER organizations_moving AFTER UPDATE OF frozen_at, moved_to ON organizations FOR EACH ROW
	WHEN (OLD.frozen_at IS DISTINCT FROM NEW.frozen_at OR OLD.moved_to IS DISTINCT FROM NEW.moved_to)
	EXECUTE FUNCTION faregate_announce('keys');
