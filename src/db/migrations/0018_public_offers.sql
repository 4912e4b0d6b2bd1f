-- ACCESS EXCLUSIVE on "services" for a moment: a column with a default is added without rewriting the table. What ran before
-- this migration goes on beside it.
ALTER TABLE "services" ADD COLUMN "offer_published" boolean DEFAULT false NOT NULL;
