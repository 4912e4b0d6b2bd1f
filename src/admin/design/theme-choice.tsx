import { useEffect, useState } from "react";
import { texts } from "../texts.ts";
import { MenuChoice } from "./menu.tsx";
import { applyTheme, keptTheme, keepTheme, THEMES } from "./theme.ts";

/** Chooses the theme, inside a menu. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(keptTheme);
  useEffect(() => {
    keepTheme(theme);
    applyTheme(theme);
  }, [theme]);
  const t = texts.shell.theme;
  return (
    <MenuChoice label={t.label} value={theme} onChange={setTheme} options={THEMES.map((each) => [each, t[each]])} />
  );
}
