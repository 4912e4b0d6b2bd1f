import { useEffect, useState } from "react";
import { texts } from "../texts.ts";
import { MenuChoice } from "./menu.tsx";

const KEPT = "faregate-theme";
const THEMES = ["light", "dark", "system"] as const;
type Theme = (typeof THEMES)[number];

/** Applies the saved theme; call it before the first render. */
export function applyTheme(theme: Theme = keptTheme()): void {
  document.documentElement.dataset["theme"] = theme;
}

function keptTheme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

/** Chooses the theme, inside a menu. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(keptTheme);
  useEffect(() => {
    localStorage.setItem(KEPT, theme);
    applyTheme(theme);
  }, [theme]);
  const t = texts.shell.theme;
  return (
    <MenuChoice label={t.label} value={theme} onChange={setTheme} options={THEMES.map((each) => [each, t[each]])} />
  );
}
