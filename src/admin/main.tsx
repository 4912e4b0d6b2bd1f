import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { Refused } from "./api.ts";
import { App } from "./app.tsx";
import { applyTheme } from "./design/theme.ts";
import { ToastProvider } from "./design/toast.tsx";
import { SessionProvider } from "./session.tsx";

applyTheme();
// A new deployment renames the chunks, so a missing one needs a page reload.
addEventListener("vite:preloadError", () => location.reload());

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      // Retry lost connections twice. Retrying an error response would only fail again.
      retry: (failures, error) => failures < 2 && !(error instanceof Refused && error.status !== 0),
    },
  },
});
const root = document.querySelector("#console");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <ToastProvider>
          <SessionProvider>
            <BrowserRouter basename={new URL(document.baseURI).pathname.replace(/\/$/, "")}>
              <App />
            </BrowserRouter>
          </SessionProvider>
        </ToastProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
