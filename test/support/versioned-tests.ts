/* Tests that run on other versions of Postgres, and through a pooler. The configuration of Vitest reads them. */

/** Folders of tests that depend on the version of Postgres beside their statements: partitions, plans, notifications. */
export const EACH_CONNECTION = ["test/db", "test/events"];

/** Files of those folders about what is sent: `postgres` runs them, and `versions-debian-pooled` on the other version, pooled. */
export const EACH_VERSION = ["mails", "mirror", "renewals", "webhooks"].map((name) => `test/events/${name}.pg.test.ts`);

/**
 * The quickest files that send, with those folders, every kind of statement; and those of races. They run on the oldest
 * supported Postgres, through a pooler. Checked by test/db/statement-shapes.shape.test.ts, which names what is missing.
 */
export const EACH_KIND = [
  "client/back/faregate",
  "client/verify",
  "entries/import-space",
  "http/approvals",
  "http/as-of",
  "http/billing-cases",
  "http/blocks",
  "http/blocks-races",
  "http/budgets",
  "http/conflicts",
  "http/contracts-isolation",
  "http/contracts-listing",
  "http/group-novation-gate",
  "http/health",
  "http/invitations",
  "http/key-rotation",
  "http/limits",
  "http/local-evaluation",
  "http/mass-novation",
  "http/members",
  "http/organizations",
  "http/overrides",
  "http/overview",
  "http/rates",
  "http/replay",
  "http/rollover",
  "http/scheduled",
  "http/service-moves",
  "http/services-races",
  "http/sessions",
  "http/sign-on",
  "http/snapshot",
  "http/stable-pages",
  "http/stream",
  "http/system",
  "http/trials",
  "http/usage-alerts",
  "http/usage-batches",
  "http/usage-history",
  "http/usage-races",
  "http/usage-waiting",
].map((name) => `test/${name}.pg.test.ts`);
