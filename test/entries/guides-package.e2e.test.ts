import { expect, test } from "vitest";
import { GUIDES_WITH_PACKAGE, useBeginner } from "./beginner.ts";

/* The guides that build the client library and use it. */

const beginner = useBeginner();

test.each(GUIDES_WITH_PACKAGE)(
  "the commands of src/docs/$name continue the README and print its answers",
  async (guide) => void (await beginner.expectContinued(guide)),
  120_000,
);

test("there are guides that build the client library", () => {
  expect(GUIDES_WITH_PACKAGE.length).toBeGreaterThanOrEqual(3);
});
