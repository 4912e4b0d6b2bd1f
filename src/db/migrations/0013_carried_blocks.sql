CREATE INDEX "contract_blocks_carried_idx" ON "contract_blocks" USING btree ("settled_at") WHERE "contract_blocks"."origin" = 'rollover' and "contract_blocks"."settled_at" is not null;
