import { describe, expect, it } from "vitest";
import { completeTexts } from "../../src/admin/language.ts";
import { texts } from "../../src/admin/texts.ts";
import { de } from "../../src/admin/texts/de.ts";
import { EVENT_CODES } from "../../src/core/event-messages.ts";
import { AUDIT_ACTIONS } from "../../src/operations/audit.ts";

await completeTexts();
describe.each([
  ["English", texts],
  ["German", de],
])("%s texts", (_, { audit, events }) => {
  it("have words for every audited action, and for no other", () => {
    expect(Object.keys(audit.words).toSorted()).toEqual([...AUDIT_ACTIONS].toSorted());
  });

  it("have words for every event code, and for no other", () => {
    expect(Object.keys(events.words).toSorted()).toEqual([...EVENT_CODES].toSorted());
  });
});

/** Lists the paths of all texts with their types. */
function leavesOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [typeof value];
  return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner).map((leaf) => `${name}.${leaf}`));
}

it("the German texts have the shape of the English ones", () => {
  expect(leavesOf(de).toSorted()).toEqual(leavesOf(texts).toSorted());
});
