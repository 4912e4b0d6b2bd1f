import { expect, it } from "vitest";
import { emailOf } from "../../../src/core/access/claims.ts";

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
