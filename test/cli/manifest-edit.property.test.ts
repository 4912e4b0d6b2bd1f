import "../support/property-seed.ts";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { editManifest, equalManifests } from "../../src/cli/files/manifest-edit.ts";
import { parseManifest } from "../../src/cli/files/manifest.ts";
import type { Manifest, ServiceEntry, VersionEntry, WebhookEntry } from "../../src/core/folder/manifest.ts";

/*
 * Manifests in any layout: each edit means what it shall mean, keeps every comment in its order, and edits nothing the
 * second time.
 */

const RUNS = 150;
const NEW_WEBHOOK: WebhookEntry = { url: "https://new.example/", description: null, codes: null, enabled: true };

const layout = fc.record({
  isFlow: fc.boolean(),
  hasComment: fc.boolean(),
  blanks: fc.integer({ min: 0, max: 2 }),
  state: fc.constantFrom("", "active", "archived", "'archived'"),
});
const service = fc.record({
  layout,
  isPublic: fc.option(fc.boolean()),
  versions: fc.array(layout, { minLength: 1, maxLength: 4 }),
});
const document = fc.record({
  services: fc.array(service, { maxLength: 3 }),
  webhooks: fc.option(fc.array(layout, { maxLength: 3 })),
  eol: fc.constantFrom("\n", "\r\n"),
  hasLastEol: fc.boolean(),
  indent: fc.constantFrom(0, 2, 4),
});
type Document = typeof document extends fc.Arbitrary<infer T> ? T : never;

/** Writes a document in its layout. Each comment is unique. */
function textOf({ services, webhooks, eol, hasLastEol, indent }: Document): string {
  let comments = 0;
  const comment = (has: boolean) => (has ? `   # c${(comments += 1)}` : "");
  const lines = ["# first", "faregate: 1"];
  const dash = `${" ".repeat(indent)}- `;
  lines.push(services.length === 0 ? "services: {}" : "services:");
  for (const [at, { layout, isPublic, versions }] of services.entries()) {
    lines.push(...Array.from({ length: layout.blanks }, () => ""));
    if (layout.hasComment) lines.push(`  ${comment(true).trim()}`);
    const entry = (index: number) => {
      const state = index === 0 ? "" : (versions[index]?.state ?? "");
      return [`file: s${at}/v${index}.yml`, ...(state === "" ? [] : [`state: ${state}`])];
    };
    if (layout.isFlow) {
      const items = versions.map((_, index) => `{ ${entry(index).join(", ")} }`).join(", ");
      const offer = isPublic === null ? "" : `public: ${isPublic}, `;
      lines.push(`  S${at}: { ${offer}versions: [ ${items} ] }${comment(layout.hasComment)}`);
      continue;
    }
    lines.push(`  S${at}:${comment(layout.hasComment)}`);
    if (isPublic !== null) lines.push(`    public: ${isPublic}`);
    lines.push("    versions:");
    for (const [index, version] of versions.entries()) {
      const inner = `    ${dash}`;
      if (version.isFlow) lines.push(`${inner}{${entry(index).join(", ")}}${comment(version.hasComment)}`);
      else {
        const [file, ...rest] = entry(index);
        lines.push(`${inner}${file}${comment(version.hasComment)}`);
        lines.push(...rest.map((each) => `${" ".repeat(inner.length)}${each}`));
      }
      if (version.hasComment) lines.push(`${" ".repeat(inner.length)}${comment(true).trim()}`);
      lines.push(...Array.from({ length: version.blanks }, () => ""));
    }
  }
  if (webhooks !== null) {
    lines.push(webhooks.length === 0 ? "webhooks: []" : "webhooks:");
    for (const [index, { isFlow, hasComment }] of webhooks.entries()) {
      const url = `url: https://w${index}.example/`;
      lines.push(`${dash}${isFlow ? `{ ${url}, enabled: false }` : url}${comment(hasComment)}`);
    }
  }
  return lines.join(eol) + eol + `# last${hasLastEol ? eol : ""}`;
}

const change = fc.record({
  states: fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }),
  expectations: fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }),
  insertions: fc.array(fc.record({ service: fc.nat(2), at: fc.nat(4) }), { maxLength: 4 }),
  isPublic: fc.boolean(),
  hasNewService: fc.boolean(),
  hasNewWebhook: fc.boolean(),
  gate: fc.option(fc.constant([{ rule: "noFeatureLost" as const }]), { nil: undefined }),
});
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

function changed({ services = [], webhooks, ...rest }: Manifest, by: Change): Manifest {
  let count = 0;
  const after = services.map((each, at): ServiceEntry => {
    const versions = each.versions.map((version, index): VersionEntry => {
      count += 1;
      return {
        ...version,
        state: index > 0 && by.states[count % 12] === true ? "archived" : "active",
        ...(by.expectations[count % 12] === true ? { expectations: `e${count}.yml` } : {}),
      };
    });
    for (const [number, insertion] of by.insertions.entries())
      if (insertion.service === at) versions.splice(insertion.at, 0, { file: `n${number}.yml`, state: "active" });
    return { ...each, versions, ...(by.isPublic ? { public: true } : {}) };
  });
  const added: ServiceEntry = { name: "Added", versions: [{ file: "added.yml", state: "active" }] };
  const hooks = [
    ...(webhooks ?? []).map((each) => ({ ...each, enabled: by.isPublic })),
    ...(by.hasNewWebhook ? [NEW_WEBHOOK] : []),
  ];
  return {
    ...rest,
    services: by.hasNewService ? [...after, added] : after,
    ...(webhooks === undefined && hooks.length === 0 ? {} : { webhooks: hooks }),
    ...(by.gate === undefined ? {} : { gate: by.gate }),
  };
}

const commentsOf = (text: string) => [...text.matchAll(/#.*/g)].map(([comment]) => comment);

test("edits of any layout keep every comment", () => {
  fc.assert(
    fc.property(document, change, (written, by) => {
      const text = textOf(written);
      const before = parseManifest("faregate.yml", text);
      const after = changed(before, by);
      const result = editManifest("faregate.yml", text, before, after);
      const again = parseManifest("faregate.yml", result);
      expect(equalManifests(again, after)).toBe(true);
      expect(commentsOf(result)).toEqual(commentsOf(text));
      expect(result.split("\n").filter((line) => line.endsWith("\r"))).toHaveLength(
        written.eol === "\r\n" ? result.split("\n").length - 1 : 0,
      );
      expect(editManifest("faregate.yml", result, again, again)).toBe(result);
    }),
    { numRuns: RUNS },
  );
});
