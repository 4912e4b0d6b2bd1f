import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { HOLES } from "./holes.ts";

/** Rows of the audit per section; E13 to E15 do not exist. */
const SECTIONS: Record<string, number> = { K: 7, A: 14, B: 13, C: 11, D: 10, E: 17, F: 13, G: 9, H: 6, I: 5, J: 5 };
const ROWS = Object.entries(SECTIONS)
  .flatMap(([letter, count]) => Array.from({ length: count }, (_, i) => `${letter}${i + 1}`))
  .filter((id) => !["E13", "E14", "E15"].includes(id));

it("every row of the audit is shown to be closed, once", () => {
  expect(HOLES.map(([id]) => id)).toEqual(ROWS);
});

it.each(HOLES)("%s, %s: what shows it is there", (_, __, proofs) => {
  expect(proofs.length).toBeGreaterThan(0);
  for (const { file, title } of proofs) {
    expect(readFileSync(resolve(import.meta.dirname, "..", file), "utf8"), `${file} has no "${title}"`).toContain(
      title,
    );
  }
});
