import { useEffect, useState } from "react";
import { texts } from "../texts.ts";

const KEPT = "faregate-theme";
const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

/** Puts the chosen colours on the page before anything is drawn. */
export function applyTheme(theme: Theme = keptTheme()): void {
  document.documentElement.dataset["theme"] = theme;
}

function keptTheme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

/** Light, dark, or as the system is. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(keptTheme);
  useEffect(() => {
    localStorage.setItem(KEPT, theme);
    applyTheme(theme);
  }, [theme]);
  return (
    <label className="theme-choice">
      <span>{texts.shell.theme.label}</span>
      <select
        value={theme}
        onChange={(event) => setTheme(THEMES.find((each) => each === event.target.value) ?? "system")}
      >
        {THEMES.map((each) => (
          <option key={each} value={each}>
            {texts.shell.theme[each]}
          </option>
        ))}
      </select>
    </label>
  );
}
