import { describe, expect, test } from "vitest";
import { editManifest } from "../../src/cli/files/manifest-edit.ts";
import { parseManifest } from "../../src/cli/files/manifest.ts";
import type { Manifest, ServiceEntry, VersionEntry, WebhookEntry } from "../../src/core/folder/manifest.ts";

/* An edited manifest differs in the lines that say something else now, and in nothing else. */

const PATH = "faregate.yml";

/** Edits a text. `change` gets what it means and returns what it shall mean. */
function edit(text: string, change: (before: Manifest) => Manifest): string {
  const before = parseManifest(PATH, text);
  return editManifest(PATH, text, before, change(before));
}

/** Changes the first service. */
const inService =
  (change: (service: ServiceEntry) => ServiceEntry) =>
  ({ services = [], ...rest }: Manifest): Manifest => ({
    ...rest,
    services: services.map((service, index) => (index === 0 ? change(service) : service)),
  });
const inVersions = (change: (versions: readonly VersionEntry[]) => readonly VersionEntry[]) =>
  inService((service) => ({ ...service, versions: change(service.versions) }));
const setVersion = (at: number, values: Partial<VersionEntry>) =>
  inVersions((versions) => versions.map((each, index) => (index === at ? { ...each, ...values } : each)));
const addVersion = (at: number, file: string) =>
  inVersions((versions) => versions.toSpliced(at, 0, { file, state: "active" }));

const FULL = `# Our pricings. Ask billing before you change them.
faregate: 1                                   # format, required

services:
  Tasker:                                     # name of the service
    public: true


    versions:                                 # in the order of upload
      - { file: "tasker/1.0.0.yml", state: archived }      # the first one
      # The next two are for sale:
      -   file: 'tasker/1.1.0.yml'
          state: active   # until June
          expectations: tasker/1.1.0.expectations.yml
      - {file: tasker/1.2.0.yml}
      # - { file: tasker/2.0.0.yml }
    moves: { fallback: { plan: PRO } }

  # The other one.
  Second: { versions: [ { file: second.yml }, ] }   # in one line
    # deeper

gate:                                         # agreed in May
  - { rule: noFeatureLost }   # never
  - rule: noPriceRise
    byMoreThanPercent: 5      # per year
alerts: { thresholds: [80, 100] }
webhooks:
- url: https://ops.example/hook   # pager
  description: billing
- { url: "https://b.example/", enabled: false, codes: [CONTRACT_CREATED] }

# The end.
`;

describe("one change keeps every other byte", () => {
  test.each<[string, (before: Manifest) => Manifest, string, string]>([
    [
      "a state in one line",
      setVersion(0, { state: "active" }),
      '{ file: "tasker/1.0.0.yml", state: archived } ',
      '{ file: "tasker/1.0.0.yml", state: active } ',
    ],
    ["a state in lines", setVersion(1, { state: "archived" }), "state: active   # until", "state: archived   # until"],
    [
      "a new state",
      setVersion(2, { state: "archived" }),
      "{file: tasker/1.2.0.yml}",
      "{file: tasker/1.2.0.yml, state: archived}",
    ],
    [
      "new expectations",
      setVersion(0, { expectations: "a.yml" }),
      "state: archived }",
      "state: archived, expectations: a.yml }",
    ],
    [
      "a version before the first",
      addVersion(0, "a.yml"),
      '      - { file: "tasker/1.0.0.yml"',
      '      - { file: a.yml }\n      - { file: "tasker/1.0.0.yml"',
    ],
    ["a version in between", addVersion(1, "a.yml"), "# the first one\n", "# the first one\n      - { file: a.yml }\n"],
    [
      "a version behind one in lines",
      addVersion(2, "a.yml"),
      "1.1.0.expectations.yml\n",
      "1.1.0.expectations.yml\n      - { file: a.yml }\n",
    ],
    [
      "a version behind the last",
      addVersion(3, "a.yml"),
      "{file: tasker/1.2.0.yml}\n",
      "{file: tasker/1.2.0.yml}\n      - { file: a.yml }\n",
    ],
    [
      "an offer that is withdrawn",
      inService((service) => ({ ...service, public: false })),
      "public: true",
      "public: false",
    ],
    [
      "an offer that is published, in one line",
      ({ services: [first, second] = [], ...rest }) => ({
        ...rest,
        services: [first, { ...second, public: true }] as ServiceEntry[],
      }),
      "[ { file: second.yml }, ] }",
      "[ { file: second.yml }, ], public: true }",
    ],
    [
      "a service",
      ({ services = [], ...rest }) => ({
        ...rest,
        services: [
          ...services,
          {
            name: "Third",
            versions: [
              { file: "3.yml", state: "archived" },
              { file: "4.yml", state: "active" },
            ],
          },
        ],
      }),
      "    # deeper\n",
      '    # deeper\n  Third:\n    versions:\n      - { file: "3.yml", state: archived }\n      - { file: "4.yml" }\n',
    ],
    [
      "the value of a rule",
      (before) => ({ ...before, gate: [{ rule: "noFeatureLost" }, { rule: "noPriceRise", byMoreThanPercent: 7.5 }] }),
      "byMoreThanPercent: 5 ",
      "byMoreThanPercent: 7.5 ",
    ],
    [
      "a rule that goes",
      (before) => ({ ...before, gate: [{ rule: "noPriceRise", byMoreThanPercent: 5 }] }),
      "  - { rule: noFeatureLost }   # never\n",
      "",
    ],
    [
      "the last rule that goes",
      (before) => ({ ...before, gate: [{ rule: "noFeatureLost" }] }),
      "  - rule: noPriceRise\n    byMoreThanPercent: 5      # per year\n",
      "",
    ],
    [
      "a rule that comes",
      (before) => ({ ...before, gate: [...(before.gate ?? []), { rule: "noQuotaLost" }] }),
      "# per year\n",
      "# per year\n  - { rule: noQuotaLost }\n",
    ],
    [
      "all rules that go",
      (before) => ({ ...before, gate: [] }),
      "gate:                                         # agreed in May\n  - { rule: noFeatureLost }   # never\n  - rule: noPriceRise\n    byMoreThanPercent: 5      # per year\n",
      "gate: []                                         # agreed in May\n",
    ],
    ["thresholds", (before) => ({ ...before, alerts: { thresholds: [50, 90, 120] } }), "[80, 100]", "[50, 90, 120]"],
    ["a threshold that goes", (before) => ({ ...before, alerts: { thresholds: [100] } }), "[80, 100]", "[100]"],
    [
      "a webhook",
      ({ webhooks = [], ...rest }) => ({
        ...rest,
        webhooks: [...webhooks, { url: "https://c.example/", description: null, codes: null, enabled: true }],
      }),
      "codes: [CONTRACT_CREATED] }\n",
      'codes: [CONTRACT_CREATED] }\n- { url: "https://c.example/" }\n',
    ],
    [
      "the fields of a webhook",
      ({ webhooks: [first, second] = [], ...rest }) => ({
        ...rest,
        webhooks: [first, { ...second, description: "b: c", codes: null, enabled: true }] as WebhookEntry[],
      }),
      "enabled: false, codes: [CONTRACT_CREATED] }",
      'enabled: true, codes: null, description: "b: c" }',
    ],
    [
      "a field of a webhook in lines",
      ({ webhooks: [first, second] = [], ...rest }) => ({
        ...rest,
        webhooks: [{ ...first, enabled: false }, second] as WebhookEntry[],
      }),
      "  description: billing\n",
      "  description: billing\n  enabled: false\n",
    ],
  ])("%s", (_, change, from, to) => {
    expect(FULL.split(from), "the line is unique").toHaveLength(2);
    expect(edit(FULL, change)).toBe(FULL.replace(from, () => to));
    const windows = FULL.replaceAll("\n", "\r\n");
    const [wide, narrow] = [from, to].map((part) => part.replaceAll("\n", "\r\n"));
    expect(edit(windows, change)).toBe(windows.replace(wide ?? "", () => narrow ?? ""));
  });
});

describe("layouts that people write", () => {
  const EMPTY = "faregate: 1\nservices: {}   # none yet\n\ngate: []\nwebhooks: [ ]\n# The end.\n";
  const service = (name: string): ServiceEntry => ({ name, versions: [{ file: "a.yml", state: "active" }] });
  const webhook: WebhookEntry = { url: "https://a.example/", description: null, codes: null, enabled: true };

  test("empty parts are filled in lines", () => {
    const filled = edit(EMPTY, (before) => ({
      ...before,
      services: [service("One"), service("Two")],
      gate: [{ rule: "noFeatureLost" }],
      webhooks: [webhook],
    }));
    expect(filled).toBe(`faregate: 1
services:   # none yet
  One:
    versions:
      - { file: a.yml }
  Two:
    versions:
      - { file: a.yml }

gate:
  - { rule: noFeatureLost }
webhooks:
  - { url: "https://a.example/" }
# The end.
`);
  });

  test("absent parts come before the comments at the end, also of a file without a last line end", () => {
    const add = (before: Manifest): Manifest => ({
      ...before,
      services: [service("One")],
      gate: [],
      webhooks: [webhook],
    });
    const lines =
      'services:\n  One:\n    versions:\n      - { file: a.yml }\ngate: []\nwebhooks:\n  - { url: "https://a.example/" }';
    expect(edit("faregate: 1", add)).toBe(`faregate: 1\n${lines}`);
    expect(edit("# Ours\nfaregate: 1\n\n# The end.", add)).toBe(`# Ours\nfaregate: 1\n${lines}\n\n# The end.`);
    expect(edit("---\nfaregate: 1\n...\n", add)).toBe(`---\nfaregate: 1\n${lines}\n...\n`);
    expect(edit("{ faregate: 1 }\n", add)).toBe(
      '{ faregate: 1, services: { One: { versions: [{ file: a.yml }] } }, gate: [], webhooks: [{ url: "https://a.example/" }] }\n',
    );
  });

  test.each([
    [
      "in one line",
      "[ { file: a.yml }, { file: b.yml } ]",
      "[ { file: a.yml }, { file: c.yml }, { file: b.yml }, { file: d.yml } ]",
    ],
    [
      "in lines with commas and comments",
      "[\n        { file: a.yml },   # first\n        { file: b.yml }    # second\n      ]",
      "[\n        { file: a.yml },   # first\n        { file: c.yml },\n        { file: b.yml },    # second\n        { file: d.yml }\n      ]",
    ],
    [
      "in lines with a last comma",
      "[\n        { file: a.yml },\n        { file: b.yml },\n      ]",
      "[\n        { file: a.yml },\n        { file: c.yml },\n        { file: b.yml },\n        { file: d.yml },\n      ]",
    ],
    [
      "in lines that begin with a comma",
      "[ { file: a.yml }\n      , { file: b.yml }\n      ]",
      "[ { file: a.yml }, { file: c.yml }\n      , { file: b.yml }, { file: d.yml }\n      ]",
    ],
    [
      "as far left as their key",
      "\n    - file: a.yml\n    - file: b.yml",
      "\n    - file: a.yml\n    - { file: c.yml }\n    - file: b.yml\n    - { file: d.yml }",
    ],
    [
      "with tabs between words",
      "\n    - file:\ta.yml\n    - file:\tb.yml\t# tab",
      "\n    - file:\ta.yml\n    - { file: c.yml }\n    - file:\tb.yml\t# tab\n    - { file: d.yml }",
    ],
    [
      "with texts in lines",
      "\n    - file: >-\n        a.yml\n    - file: |-\n        b.yml\n",
      "\n    - file: >-\n        a.yml\n    - { file: c.yml }\n    - file: |-\n        b.yml\n    - { file: d.yml }\n",
    ],
    [
      "with anchors",
      "\n    - &a { file: a.yml }\n    - &b\n      file: b.yml",
      "\n    - &a { file: a.yml }\n    - { file: c.yml }\n    - &b\n      file: b.yml\n    - { file: d.yml }",
    ],
  ])("versions %s", (_, list, expected) => {
    const text = (versions: string) => `faregate: 1\nservices:\n  One:\n    versions: ${versions}\n    moves: {}\n`;
    const change = inVersions(([first, second]) => [
      first as VersionEntry,
      { file: "c.yml", state: "active" },
      second as VersionEntry,
      { file: "d.yml", state: "active" },
    ]);
    for (const eol of ["\n", "\r\n"]) {
      const [from, to] = [list, expected].map((each) => text(each).replaceAll("\n", eol));
      expect(edit(from ?? "", change)).toBe(to);
    }
  });

  test.each([
    ["a state without a value", "{ file: a.yml, state: }", "{ file: a.yml, state: archived }"],
    ["a state that is only a key", "{ file: a.yml, state }", "{ file: a.yml, state: archived }"],
    [
      "a state in lines without a value",
      "\n        file: a.yml\n        state:   # to do",
      "\n        file: a.yml\n        state: archived   # to do",
    ],
    ["a quoted state", `{ "file": a.yml, "state": 'active' }`, `{ "file": a.yml, "state": archived }`],
    ["an alias", "*a", "{ file: a.yml, state: archived }"],
    ["a merge", "{ <<: *a }", "{ <<: *a, state: archived }"],
  ])("%s is set", (_, entry, expected) => {
    const text = (item: string) =>
      `faregate: 1\nservices:\n  One:\n    versions:\n      - ${item}\n  Two: { versions: [ &a { file: a.yml, state: active } ] }\n`;
    const before =
      text(entry).replace(/ {2}One[^]*?(?= {2}Two)/, "") + text(entry).match(/ {2}One[^]*?(?= {2}Two)/)?.[0];
    const after =
      text(expected).replace(/ {2}One[^]*?(?= {2}Two)/, "") + text(expected).match(/ {2}One[^]*?(?= {2}Two)/)?.[0];
    const read = parseManifest(PATH, `${before}      - { file: b.yml }\n`);
    const wanted = {
      services:
        read.services?.map((each) =>
          each.name === "One"
            ? {
                ...each,
                versions: each.versions.map((version, at) =>
                  at === 0 ? { ...version, state: "archived" as const } : version,
                ),
              }
            : each,
        ) ?? [],
    };
    expect(editManifest(PATH, `${before}      - { file: b.yml }\n`, read, wanted)).toBe(
      `${after}      - { file: b.yml }\n`,
    );
  });

  test("a change that other lines share is refused", () => {
    for (const entry of ["&a { file: a.yml }", "&a\n        file: a.yml"]) {
      const text = `faregate: 1\nservices:\n  One:\n    versions: [ { file: b.yml } ]\n`.replace(
        "[ { file: b.yml } ]",
        `\n      - ${entry}\n      - { file: b.yml }\n  Two: { versions: [ *a ] }`,
      );
      expect(() => edit(text, setVersion(0, { state: "archived" }))).toThrow(
        "faregate.yml cannot be edited line by line. Write its anchors, aliases and merge keys out, or export into another folder",
      );
    }
    const merged = "faregate: 1\nservices:\n  One: &one { versions: [ { file: a.yml } ] }\n  Two: { <<: *one }\n";
    expect(() =>
      edit(merged, ({ services = [] }) => ({
        services: services.map((each) => ({
          ...each,
          versions: [...each.versions, { file: "b.yml", state: "active" }],
        })),
      })),
    ).toThrow("cannot be edited line by line");
  });
});
