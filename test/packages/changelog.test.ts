import { expect, test } from "vitest";
import { changelogEntry, versionProblem, withEntry } from "../../.package/changelog.ts";

test("an entry has what users notice, by kind, with breaking changes first", () => {
  const subjects = [
    "feat(client): one",
    "test: nothing to see",
    "fix: two",
    "feat(http)!: three",
    "refactor(db): four",
    "perf(events): five",
    "not a subject of ours",
  ];
  expect(changelogEntry("1.2.0", "2026-01-02", subjects)).toBe(`## 1.2.0 (2026-01-02)

### Breaking

- **http**: three

### Added

- **client**: one

### Fixed

- two

### Faster

- **events**: five
`);
  expect(changelogEntry("1.2.1", "2026-01-03", ["docs: more"])).toBe(
    "## 1.2.1 (2026-01-03)\n\nNo changes for users.\n",
  );
});

test("the newest entry is on top", () => {
  const first = withEntry(undefined, changelogEntry("1.0.0", "2026-01-01", ["feat: a"]));
  const second = withEntry(first, changelogEntry("1.1.0", "2026-01-02", ["feat: b"]));
  expect(second.match(/^#.*$/gm)).toEqual([
    "# Changelog",
    "## 1.1.0 (2026-01-02)",
    "### Added",
    "## 1.0.0 (2026-01-01)",
    "### Added",
  ]);
  expect(second).not.toMatch(/\n{3}/);
});

test.each<[version: string, current: string, isFirst: boolean, problem: string | undefined]>([
  ["0.1.0", "0.1.0", true, undefined],
  ["0.1.0", "0.1.0", false, "0.1.0 is released already."],
  ["0.2.0", "0.1.9", false, undefined],
  ["0.1.10", "0.1.9", false, undefined],
  ["1.0.0", "0.9.9", false, undefined],
  ["0.1.8", "0.1.9", false, "0.1.8 is older than 0.1.9."],
  ["v1.0.0", "0.1.0", false, "v1.0.0 is no version: it must look like 1.2.3."],
  ["1.0", "0.1.0", false, "1.0 is no version: it must look like 1.2.3."],
  ["01.0.0", "0.1.0", false, "01.0.0 is no version: it must look like 1.2.3."],
])("release %s after %s (the first: %s): %s", (version, current, isFirst, problem) => {
  expect(versionProblem(version, current, isFirst)).toBe(problem);
});
