-- On "contracts" a partial index: writers of contracts wait while it is built, by one scan of the table. On a large one, build it
-- by hand before: CREATE INDEX CONCURRENTLY. What ran before this migration goes on beside it.
CREATE INDEX IF NOT EXISTS "contracts_renewal_idx" ON "contracts" USING btree ("end_date") WHERE "contracts"."auto_renew";