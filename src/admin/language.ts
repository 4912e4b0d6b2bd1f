import { type Texts, texts } from "./texts.ts";

const KEPT = "faregate-language";

/** Languages with their own names, and the file of each. English needs none. */
const LANGUAGES = {
  en: { name: "English", load: undefined },
  de: { name: "Deutsch", load: async (): Promise<Texts> => (await import("./texts/de.ts")).de },
} as const;
export type Language = keyof typeof LANGUAGES;

export const LANGUAGE_NAMES: readonly (readonly [Language, string])[] = [
  ["en", LANGUAGES.en.name],
  ["de", LANGUAGES.de.name],
];

/** Returns the chosen language, otherwise the browser's, otherwise English. */
export function chosenLanguage(): Language {
  const wanted = localStorage.getItem(KEPT) ?? navigator.language.slice(0, 2);
  return wanted === "de" ? "de" : "en";
}

/** Letters that run from right to left, and marks that change the direction, such as U+202E. */
const DIRECTED =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
const ISOLATES = /[\u2066-\u2069]/g;

/** Isolates a text, so that it does not turn around the sentence that it is put in. */
function isolate(text: unknown): unknown {
  if (typeof text !== "string" || !DIRECTED.test(text)) return text;
  // Isolates in the text may end the one around it.
  const count = 1 + (text.match(ISOLATES)?.length ?? 0);
  return "\u2068".repeat(count) + text + "\u2069".repeat(count);
}

/**
 * Returns texts whose sentences isolate what is put into them. Safe casts: the result has the shape of `value`, and each
 * function takes and returns what its original does.
 */
export function isolating<T>(value: T): T {
  if (typeof value === "function") return ((...given: unknown[]) => value(...given.map(isolate))) as T;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, isolating(inner)])) as T;
}

/** Keeps the language and reloads: texts are read when modules load. */
export function chooseLanguage(language: Language): void {
  localStorage.setItem(KEPT, language);
  location.reload();
}

/** Replaces the texts by the chosen language's. Call it before the first page is imported. */
export async function applyLanguage(): Promise<void> {
  const language = chosenLanguage();
  document.documentElement.lang = language;
  const load = LANGUAGES[language].load;
  Object.assign(texts, isolating(load === undefined ? texts : await load()));
}

/** Adds the texts of pages behind the sign-in. Call it before the first of them is imported. A translation has them already. */
export async function completeTexts(): Promise<void> {
  const { behindSignIn } = await import("./texts/behind-sign-in.ts");
  Object.assign(texts, { ...isolating(behindSignIn), ...texts });
}
