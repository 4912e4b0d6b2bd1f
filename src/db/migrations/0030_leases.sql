-- A column without a default, and a check that no row of before can violate, because none is a lease: ACCESS EXCLUSIVE on "holds"
-- for a moment. What ran before this migration goes on beside it, and ends leases as it ends holds.
ALTER TABLE "holds" ADD COLUMN "lease" json;--> statement-breakpoint
ALTER TABLE "holds" ADD CONSTRAINT "holds_lease_whole" CHECK (("holds"."kind" = 'lease') = ("holds"."lease" is not null)) NOT VALID;
