-- A column without a default on "pricings": ACCESS EXCLUSIVE for a moment. What ran before this migration goes on beside it;
-- versions that it uploads have no expectations, which can be added later.
ALTER TABLE "pricings" ADD COLUMN "expectations" text;