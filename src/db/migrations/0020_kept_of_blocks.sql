-- What ended blocks keep for open holds. Locks `block_draws` and `contract_blocks` for milliseconds: the new constraint of `block_draws`
-- is not checked for rows of before, and allows more than the old one.
ALTER TABLE "block_draws" DROP CONSTRAINT "block_draws_kind_known";--> statement-breakpoint
ALTER TABLE "contract_blocks" ADD COLUMN "kept" numeric DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "block_draws" ADD CONSTRAINT "block_draws_kind_known" CHECK ("block_draws"."kind" in ('period', 'end', 'kept')) NOT VALID;--> statement-breakpoint
ALTER TABLE "contract_blocks" ADD CONSTRAINT "contract_blocks_kept" CHECK ("contract_blocks"."kept" >= 0 and "contract_blocks"."used" + "contract_blocks"."kept" <= "contract_blocks"."amount") NOT VALID;
