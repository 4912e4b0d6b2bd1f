import { useEffect, useState } from "react";
import { texts } from "../texts.ts";

const KEPT = "faregate-theme";
const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

/** Applies the saved theme; call it before the first render. */
export function applyTheme(theme: Theme = keptTheme()): void {
  document.documentElement.dataset["theme"] = theme;
}

function keptTheme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

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
