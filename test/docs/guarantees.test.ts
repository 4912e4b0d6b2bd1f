import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

/* The report names tests by file and title, so that a reader can run each promise. */

const FOLDER = new URL("../../src/docs/", import.meta.url);
const page = readFileSync(new URL("guarantees.md", FOLDER), "utf8");

/** Every `[name](path): “title”` of the page. */
const named = [...page.matchAll(/\]\((\.\.\/\.\.\/test\/[\w./-]+)\)(?:: “([^”]+)”)?/g)].map(([, file = "", title]) => ({
  file,
  title,
}));

test("each test that the guarantees name exists, with that title", () => {
  expect(named.length).toBeGreaterThan(25);
  const missing = named.filter(({ file, title }) => {
    const path = new URL(file, FOLDER);
    return title === undefined || !existsSync(path) || !readFileSync(path, "utf8").includes(title);
  });
  expect(missing).toEqual([]);
});

test("each promise names a test and what breaks it", () => {
  const [promised = ""] = page.split("## How hard it is tried");
  const rows = promised.split("\n").filter((line) => line.startsWith("| ") && !/^\| (promise|fault) \|/.test(line));
  const promises = rows.filter((row) => row.split(" | ").length === 3);
  expect(promises.length).toBeGreaterThan(25);
  for (const row of promises) expect(row).toMatch(/\]\((\.\.\/\.\.\/test\/|clients\.md)/);
});
