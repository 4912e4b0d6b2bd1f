import { expect, test } from "vitest";
import { directUrlOf } from "../../src/entries/commands/doctor-pooler.ts";

test.each([
  ["ep-cool-1234-pooler.us-east-2.aws.neon.tech", "ep-cool-1234.us-east-2.aws.neon.tech:5432"],
  ["aws-0-eu-west-1.pooler.supabase.com:6543", "aws-0-eu-west-1.pooler.supabase.com:5432"],
  ["rates.postgres.database.azure.com:6432", "rates.postgres.database.azure.com:5432"],
  ["p.abc.db.postgresbridge.com:5431", "p.abc.db.postgresbridge.com:5432"],
  ["faregate.proxy-abc.eu-west-1.rds.amazonaws.com", "<host of the database>:5432"],
])("behind the pooler %s the database is probably at %s, and its password is not shown", (pooler, direct) => {
  expect(directUrlOf(`postgres://ada%40x:sesame@${pooler}/rates?sslmode=require`)).toBe(
    `postgres://ada%40x:…@${direct}/rates`,
  );
});

test("DigitalOcean's pools have names of their own", () => {
  expect(directUrlOf("postgres://ada:sesame@db-1.db.ondigitalocean.com:25061/pool-1")).toBe(
    "postgres://ada:…@db-1.db.ondigitalocean.com:25060/<name of the database>",
  );
});
