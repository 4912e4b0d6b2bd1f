-- Amounts beyond the plan, and what was drawn from them. Locks `contracts` for the time of two triggers.
CREATE TABLE "block_draws" (
	"block_id" text NOT NULL,
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"kind" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"amount" numeric NOT NULL,
	CONSTRAINT "block_draws_pk" PRIMARY KEY("block_id","at","kind","organization_id"),
	CONSTRAINT "block_draws_kind_known" CHECK ("block_draws"."kind" in ('period', 'end'))
);
--> statement-breakpoint
CREATE TABLE "contract_blocks" (
	"id" text NOT NULL,
	"contract_id" text NOT NULL,
	"organization_id" text NOT NULL,
	"service_id" text NOT NULL,
	"limit_name" text NOT NULL,
	"origin" text NOT NULL,
	"amount" numeric NOT NULL,
	"used" numeric DEFAULT 0 NOT NULL,
	"period_left" numeric NOT NULL,
	"pending_draw" numeric DEFAULT 0 NOT NULL,
	"starts_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"resets_left" integer,
	"reason" text NOT NULL,
	"key" text,
	"request" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"settled_at" timestamp (3) with time zone,
	"actor_kind" text NOT NULL,
	"actor_id" text,
	CONSTRAINT "contract_blocks_pk" PRIMARY KEY("id","organization_id"),
	CONSTRAINT "contract_blocks_key_unique" UNIQUE("contract_id","key","organization_id"),
	CONSTRAINT "contract_blocks_state_known" CHECK ("contract_blocks"."state" in ('open', 'spent', 'expired', 'revoked')),
	CONSTRAINT "contract_blocks_origin_known" CHECK ("contract_blocks"."origin" in ('given', 'rollover', 'billing')),
	CONSTRAINT "contract_blocks_ended_whole" CHECK (("contract_blocks"."state" = 'open') = ("contract_blocks"."ended_at" is null)),
	CONSTRAINT "contract_blocks_amounts" CHECK ("contract_blocks"."used" >= 0 and "contract_blocks"."used" <= "contract_blocks"."amount" and "contract_blocks"."period_left" >= 0)
);
--> statement-breakpoint
CREATE INDEX "block_draws_contract_idx" ON "block_draws" USING btree ("contract_id","at");--> statement-breakpoint
CREATE INDEX "contract_blocks_contract_idx" ON "contract_blocks" USING btree ("contract_id","id");--> statement-breakpoint
CREATE INDEX "contract_blocks_organization_idx" ON "contract_blocks" USING btree ("organization_id","id");--> statement-breakpoint
CREATE INDEX "contract_blocks_counting_idx" ON "contract_blocks" USING btree ("contract_id") WHERE "contract_blocks"."settled_at" is null;--> statement-breakpoint
CREATE INDEX "contract_blocks_due_idx" ON "contract_blocks" USING btree ("expires_at") WHERE "contract_blocks"."state" = 'open';
--> statement-breakpoint
-- Replaces foreign keys, which would look the contract up and lock it again for each block.
CREATE FUNCTION faregate_remove_blocks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM block_draws WHERE contract_id = OLD.id;
	DELETE FROM contract_blocks WHERE contract_id = OLD.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_blocks AFTER DELETE ON contracts FOR EACH ROW EXECUTE FUNCTION faregate_remove_blocks();
--> statement-breakpoint
-- Blocks go along with a contract that moves to another organization.
CREATE FUNCTION faregate_move_blocks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE block_draws SET organization_id = NEW.organization_id WHERE contract_id = NEW.id;
	UPDATE contract_blocks SET organization_id = NEW.organization_id WHERE contract_id = NEW.id;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER contracts_blocks_moved AFTER UPDATE OF organization_id ON contracts FOR EACH ROW
	WHEN (OLD.organization_id IS DISTINCT FROM NEW.organization_id) EXECUTE FUNCTION faregate_move_blocks();
