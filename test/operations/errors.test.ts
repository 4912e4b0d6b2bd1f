import { expect, test } from "vitest";
import { asFailure } from "../../src/operations/errors.ts";

const failureFor = (code: string, routine?: string) => {
  const cause = Object.assign(new Error("from the server"), { code, ...(routine === undefined ? {} : { routine }) });
  return asFailure(new Error("a query failed", { cause }));
};

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
