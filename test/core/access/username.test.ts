import { expect, test } from "vitest";
import { hasAllowedCharacters } from "../../../src/core/access/username.ts";

test.each([
  "José",
  "Мария",
  "李明",
  "김철수",
  "佐藤さくら",
  "タナカ",
  "李Ming",
  "Ελένη",
  "محمد",
  "שרה",
  "สมชาย",
  "अमित",
  "o'brien",
  "ada lovelace",
  "user_1-2.3@x",
  "ada🚀",
])("%s is a name", (name) => expect(hasAllowedCharacters(name)).toBe(true));

test.each([
  ["a zero-width space", "admin\u200b"],
  ["a zero-width joiner", "ad\u200dmin"],
  ["a soft hyphen", "ad\u00admin"],
  ["a right-to-left override", "\u202enimda"],
  ["a bidirectional isolate", "\u2066admin"],
  ["a NUL", "adm\u0000in"],
  ["a line separator", "ad\u2028min"],
  ["a Hangul filler", "admin\u3164"],
  ["a variation selector", "admin\ufe0f"],
  ["a private character", "admin\ue000"],
  ["an unassigned character", "admin\u0378"],
  ["half a surrogate pair", "admin\ud800"],
  ["a Cyrillic а among Latin letters", "\u0430dmin"],
  ["a Greek ο among Latin letters", "r\u03bfot"],
  ["Greek and Cyrillic", "Ελдa"],
  ["Hangul and Hiragana", "김さくら"],
])("a name with %s is refused", (_, name) => expect(hasAllowedCharacters(name)).toBe(false));
