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
  if (load !== undefined) Object.assign(texts, await load());
}

/** Adds the texts of pages behind the sign-in. Call it before the first of them is imported. A translation has them already. */
export async function completeTexts(): Promise<void> {
  const { behindSignIn } = await import("./texts/behind-sign-in.ts");
  Object.assign(texts, { ...behindSignIn, ...texts });
}
