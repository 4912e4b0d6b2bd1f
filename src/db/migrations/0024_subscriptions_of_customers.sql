-- Finds the user of a payment that names the customer alone. Locks billing_subscriptions against writes while the index is built.
CREATE INDEX IF NOT EXISTS "billing_subscriptions_customer_idx" ON "billing_subscriptions" USING btree ("connection_id",("register" ->> 'customer'));
