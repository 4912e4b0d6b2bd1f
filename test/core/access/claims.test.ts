import { expect, it } from "vitest";
import { emailOf, suggestedNames } from "../../../src/core/access/claims.ts";

it.each([
  [{ email: "ada@acme.example" }, "ada@acme.example"],
  [{ email: "ada@acme.example", email_verified: true }, "ada@acme.example"],
  [{ email: "ada@acme.example", email_verified: "true" }, "ada@acme.example"],
  [{ email: "ada@acme.example", email_verified: false }, undefined],
  [{ email: "ada@acme.example", email_verified: "false" }, undefined],
  [{ email: "ada\0@acme.example" }, undefined],
  [{ email: "ada@acme.example\u0007" }, undefined],
  [{ email: "ada@acme.example\r\nBcc: eve@evil.example" }, undefined],
  [{ email: `${"a".repeat(250)}@acme.example` }, undefined],
  [{ email: ["ada@acme.example"] }, undefined],
])("reads the address of %j as %j", (claims, email) => {
  expect(emailOf(claims)).toBe(email);
});

it.each([
  [{ preferred_username: " ada ", email: "ada.l@acme.example" }, ["ada", "ada.l"]],
  [{ email: "ada@home@acme.example" }, ["ada@home"]],
  [{ email: "ada of acme" }, []],
  [{ preferred_username: 5, email: "@acme.example" }, []],
])("suggests from %j the names %j", (claims, names) => {
  expect(suggestedNames(claims, "preferred_username")).toEqual(names);
});
