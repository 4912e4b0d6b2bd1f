const KEPT = "faregate-theme";
export const THEMES = ["light", "dark", "system"] as const;
type Theme = (typeof THEMES)[number];

/** Applies the saved theme; call it before the first render. */
export function applyTheme(theme: Theme = keptTheme()): void {
  document.documentElement.dataset["theme"] = theme;
}

export function keptTheme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

export const keepTheme = (theme: Theme): void => localStorage.setItem(KEPT, theme);
