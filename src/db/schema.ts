/*
 * All tables. SQL is snake_case, table names are plural, moments are timestamptz, every foreign key is indexed. Every
 * constraint has a name, by which operations recognise its violation.
 * Tables that grow with customers have `organization_id` in every key, so that they can be distributed by it. Where a deleted
 * parent sets a reference to null, the migration names the column: ON DELETE SET NULL (service_id).
 * JSON that a client reads back is `json`, never `jsonb`, which reorders keys: the order of a pricing's keys is significant.
 */
export * from "./schema/accounts.ts";
export * from "./schema/invitations.ts";
export * from "./schema/approvals.ts";
export * from "./schema/catalog.ts";
export * from "./schema/contracts.ts";
export * from "./schema/blocks.ts";
export * from "./schema/members.ts";
export * from "./schema/budgets.ts";
export * from "./schema/scheduled.ts";
export * from "./schema/usage.ts";
export * from "./schema/usage-sums.ts";
export * from "./schema/messaging.ts";
export * from "./schema/billing.ts";
export * from "./schema/operation.ts";
