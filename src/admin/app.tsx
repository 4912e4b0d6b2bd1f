import { lazy, Suspense } from "react";
import { Route, Routes } from "react-router";
import { RegisterPage } from "./pages/register.tsx";
import { SignInPage } from "./pages/sign-in.tsx";
import { useSession } from "./session.tsx";

const SignedIn = lazy(async () => ({ default: (await import("./signed-in.tsx")).SignedIn }));

/** The console. Signed-out users see the sign-in page at every address, then the page they requested. */
export function App() {
  const { user } = useSession();
  if (user === undefined) {
    return (
      <Routes>
        <Route path="/register" element={<RegisterPage />} />
        <Route path="*" element={<SignInPage />} />
      </Routes>
    );
  }
  return (
    <Suspense fallback={null}>
      <SignedIn />
    </Suspense>
  );
}
