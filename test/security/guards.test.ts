import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { GUARDS, placesOf } from "./guards.ts";

it.each(GUARDS)("$file: the guard that $what is where the mutation looks for it", (guard) => {
  const text = readFileSync(resolve(import.meta.dirname, "../../src", guard.file), "utf8");
  for (const { find, put } of placesOf(guard)) {
    expect(text.split(find)).toHaveLength(2);
    expect(put).not.toBe(find);
  }
});
