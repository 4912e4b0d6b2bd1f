-- Who was denied last by a budget. Locks `contract_budgets` for the time of new columns, which rewrite nothing.
ALTER TABLE "contract_budgets" ADD COLUMN "denied_spender" text;--> statement-breakpoint
ALTER TABLE "contract_budgets" ADD COLUMN "denied_amount" numeric;--> statement-breakpoint
ALTER TABLE "contract_budgets" ADD COLUMN "denied_at" timestamp (3) with time zone;