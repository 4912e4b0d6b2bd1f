import { lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter, Route, Routes } from "react-router";
import type { Visit } from "./answers.ts";
import { SignInPage } from "./pages/sign-in.tsx";
import { completeTexts } from "./language.ts";
import { SessionProvider, useSession } from "./session.tsx";

// Few visitors need more than the form that signs in.
const RegisterPage = lazy(async () => ({ default: (await import("./pages/register.tsx")).RegisterPage }));
const InvitationPage = lazy(async () => ({ default: (await import("./pages/invitation.tsx")).InvitationPage }));
const RecoveryPage = lazy(async () => ({ default: (await import("./pages/recovery.tsx")).RecoveryPage }));
const NewPasswordPage = lazy(async () => ({ default: (await import("./pages/recovery.tsx")).NewPasswordPage }));
const SignedIn = lazy(async () => {
  await completeTexts();
  return { default: (await import("./signed-in.tsx")).SignedIn };
});

/** Renders the console into the page. */
export function showConsole(visit: Visit | undefined): void {
  const root = document.querySelector("#console");
  if (root === null) return;
  createRoot(root).render(
    <StrictMode>
      <SessionProvider visit={visit}>
        <BrowserRouter basename={new URL(document.baseURI).pathname.replace(/\/$/, "")}>
          <App />
        </BrowserRouter>
      </SessionProvider>
    </StrictMode>,
  );
}

/** Signed-out users see the sign-in page at every address, then the page they requested. */
function App() {
  const { user } = useSession();
  return <Suspense fallback={null}>{user === undefined ? <SignedOut /> : <SignedIn />}</Suspense>;
}

function SignedOut() {
  return (
    <Routes>
      <Route path="/register" element={<RegisterPage />} />
      <Route path="/invitations/:token" element={<InvitationPage />} />
      <Route path="/recovery" element={<RecoveryPage />} />
      <Route path="/recovery/:token" element={<NewPasswordPage />} />
      <Route path="*" element={<SignInPage />} />
    </Routes>
  );
}
