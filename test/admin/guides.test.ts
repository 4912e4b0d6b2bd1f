import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { guideFrom, searchGuides } from "../../src/admin/guides.ts";

const FOLDER = new URL("../../src/docs/", import.meta.url);
const names = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".md"))
  .map((name) => name.slice(0, -3));
const guides = names.map((name) => guideFrom(name, readFileSync(new URL(`${name}.md`, FOLDER), "utf8")));

test("the console has every guide", () => {
  const source = readFileSync(new URL("../../src/admin/guides.ts", import.meta.url), "utf8");
  for (const name of names) expect(source).toContain(`import("../docs/${name}.md?raw")`);
});

test("links between guides stay in the console, and lead to headings that exist", () => {
  const anchors = new Map(guides.map(({ name, sections }) => [name, new Set(sections.map(({ anchor }) => anchor))]));
  const links = guides.flatMap(({ html }) => [...html.matchAll(/href="docs\/([\w-]+)(?:#([^"]+))?"/g)]);
  expect(links.length).toBeGreaterThan(0);
  for (const [link, name = "", anchor] of links) {
    expect(anchors.has(name), link).toBe(true);
    if (anchor !== undefined) expect(anchors.get(name), link).toContain(anchor);
  }
});

test("a guide's text cannot become markup, and files outside of the console become no links", () => {
  const { html } = guideFrom(
    "x",
    "# X\n\n```\n<script>alert(1)</script>\n```\n\n[file](../db/roles.sql) [bad](javascript:x)",
  );
  expect(html).not.toContain("<script");
  expect(html).not.toContain("href");
});

test("a search finds sections with all words, headings first", () => {
  const found = searchGuides(guides, ["webhook"]);
  expect(found.map(({ guide }) => guide.name)).toContain("events");
  const [first] = searchGuides(guides, ["patroni"]);
  expect(first?.guide.name).toBe("operate");
  expect(searchGuides(guides, [""])).toEqual([]);
  expect(searchGuides(guides, ["no such word anywhere"])).toEqual([]);
});
