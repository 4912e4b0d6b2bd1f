/** UTS 39 "highly restrictive": scripts that one name may combine. Source: contract README, decision 23. */
const SCRIPT_GROUPS: readonly (readonly string[])[] = [
  ["Latin", "Han", "Hiragana", "Katakana"],
  ["Latin", "Han", "Bopomofo"],
  ["Latin", "Han", "Hangul"],
  // Single scripts: UAX 31 recommended and limited-use scripts.
  ..."Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hebrew Kannada Khmer Lao Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan Adlam Balinese Bamum Batak Canadian_Aboriginal Chakma Cham Cherokee Hanifi_Rohingya Javanese Kayah_Li Lepcha Limbu Lisu Mandaic Meetei_Mayek Mongolian Newa New_Tai_Lue Nko Ol_Chiki Osage Saurashtra Sundanese Syloti_Nagri Syriac Tai_Le Tai_Tham Tai_Viet Tifinagh Vai Wancho Yi"
    .split(" ")
    .map((script) => [script]),
];

const GROUP_PATTERNS = SCRIPT_GROUPS.map((scripts) => {
  const classes = ["Common", "Inherited", ...scripts].map((script) => `\\p{Script_Extensions=${script}}`);
  return new RegExp(`^[${classes.join("")}]*$`, "u");
});

/** Control, format, bidirectional, private, unassigned and invisible characters, lone surrogates, and line breaks. */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/**
 * Returns false for invisible characters and for combinations of scripts that no writing system uses. Does not check
 * the length.
 */
export function hasAllowedCharacters(username: string): boolean {
  return !INVISIBLE.test(username) && GROUP_PATTERNS.some((group) => group.test(username));
}
