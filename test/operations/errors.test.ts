import { expect, test } from "vitest";
import { asFailure, Failure } from "../../src/operations/errors.ts";

const failureFor = (code: string, routine?: string) => {
  const cause = Object.assign(new Error("from the server"), { code, ...(routine === undefined ? {} : { routine }) });
  return asFailure(new Error("a query failed", { cause }));
};

test("a failure quotes a few thousand characters of what was sent, and no more", () => {
  expect(new Failure("invalid", `Services not found: ${"x".repeat(1_000_000)}`).message).toMatch(
    /^Services not found: x{7900,8000}…$/,
  );
  expect(new Failure("invalid", "Services not found: x").message).toBe("Services not found: x");
});

test.each([
  ["22021", undefined, "INVALID DATA: A text contains a character that cannot be stored"],
  ["22P05", undefined, "INVALID DATA: A text contains a character that cannot be stored"],
  ["22P02", "json_errsave_error", "INVALID DATA: A text contains a character that cannot be stored"],
  ["22P02", "json_ereport_error", "INVALID DATA: A text contains a character that cannot be stored"],
  ["54000", undefined, "INVALID DATA: A text is longer than can be stored"],
  ["54001", undefined, "INVALID DATA: The body is nested too deeply"],
])("the server's %s (%s) is told as what the caller sent", (code, routine, message) => {
  expect(failureFor(code, routine)).toMatchObject({ code: "invalid", message });
});

test.each([
  ["22P02", "pg_strtoint32_safe"],
  ["22P02", undefined],
  ["23505", undefined],
])("the server's %s (%s) is ours", (code, routine) => {
  expect(failureFor(code, routine)).toBeUndefined();
});
