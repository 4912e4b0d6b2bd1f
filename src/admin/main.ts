import { applyTheme } from "./design/theme.ts";
import { applyLanguage, completeTexts } from "./language.ts";
import { readVisit, wasSignedIn } from "./visit.ts";

const RELOADED = "faregate-reloaded";
const PATIENCE_MS = 10_000;

applyTheme();
const visit = readVisit();
// A new deployment renames the chunks, so a missing one needs a page reload. A second one would not help.
addEventListener("vite:preloadError", () => {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED)) < PATIENCE_MS) return;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
});

// Pages read their texts when they load.
await applyLanguage();
// All parts of the first page load at once: this file imports none of them, not even React.
if (wasSignedIn()) {
  void completeTexts().then(() => {
    void import("./signed-in.tsx");
    if (/\/(?:o\/\w+\/?)?$/.test(location.pathname)) void import("./pages/overview.tsx");
  });
}
const { showConsole } = await import("./app.tsx");
showConsole(await visit);
