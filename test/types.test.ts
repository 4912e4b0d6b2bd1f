import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";

/* The compiler takes one processor, and runs beside the first other files. */

/** A failed command: its output, and why it failed. */
interface Failure {
  message: string;
  stdout?: string;
}

it("the types of all sources and tests are right", { timeout: 300_000 }, async () => {
  const problems = await promisify(execFile)("npm", ["run", "-s", "check:types"]).then(
    () => "",
    ({ stdout, message }: Failure) => (stdout === undefined || stdout === "" ? message : stdout),
  );
  expect(problems).toBe("");
});
