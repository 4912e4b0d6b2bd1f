import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { applyTheme } from "./design/theme.ts";
import { applyLanguage } from "./language.ts";
import { hasStoredSession, SessionProvider } from "./session.tsx";

applyTheme();
// A new deployment renames the chunks, so a missing one needs a page reload.
addEventListener("vite:preloadError", () => location.reload());

// Pages read their texts when they load.
await applyLanguage();
// All parts of the first page load at once, not one after the other.
if (hasStoredSession()) {
  void import("./signed-in.tsx");
  if (/\/(?:o\/\w+\/?)?$/.test(location.pathname)) void import("./pages/overview.tsx");
}
const { App } = await import("./app.tsx");
const root = document.querySelector("#console");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <SessionProvider>
        <BrowserRouter basename={new URL(document.baseURI).pathname.replace(/\/$/, "")}>
          <App />
        </BrowserRouter>
      </SessionProvider>
    </StrictMode>,
  );
}
