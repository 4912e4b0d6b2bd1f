/*
 * Statements and functions that a Postgres distributed by contract would refuse. These lists may only shrink:
 * statement-shapes.shape.test.ts refuses an entry that is not needed.
 */

export const EXCEPTIONS: Readonly<Record<"statements" | "functions", readonly string[]>> = {
  statements: [],
  functions: [],
};
