import { expect, test } from "vitest";
import { violates } from "../../src/db/postgres/connect.ts";

test.each([
  ["23505", "users_username_unique", true],
  ["23503", "users_username_unique", true],
  ["23505", "users_other_unique", false],
  // Error for an entry that is too long for this index.
  ["54000", "users_username_unique", false],
])("an error %s that names %s violates it: %s", (code, constraint, expected) => {
  const cause = Object.assign(new Error("from the server"), { code, constraint_name: constraint });
  expect(violates(new Error("a query failed", { cause }), "users_username_unique")).toBe(expected);
});
