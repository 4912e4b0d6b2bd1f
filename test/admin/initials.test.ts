import { expect, it } from "vitest";
import { initialsOf } from "../../src/admin/design/mark.tsx";

it.each([
  ["ada", "AD"],
  ["Ada Lovelace", "AL"],
  ["ada.lovelace@example.org", "AL"],
  ["x", "X"],
  ["", ""],
  ["._-@", "._"],
  ["😀ada", "😀A"],
  ["😀 ada", "😀A"],
  ["👩‍👩‍👧 🇪🇸", "👩‍👩‍👧🇪🇸"],
  ["🇪🇸ada", "🇪🇸A"],
  ["👍🏽", "👍🏽"],
  ["e\u0301mile", "E\u0301M"],
  ["ñandú", "ÑA"],
  ["straße", "ST"],
  ["ß", "SS"],
  ["𝒜da", "𝒜D"],
  ["李小龍", "李小"],
])("the initials of '%s' are '%s'", (name, initials) => {
  expect(initialsOf(name)).toBe(initials);
  expect(() => encodeURIComponent(initialsOf(name))).not.toThrow();
});
