import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import {
  Default,
  ErrorFallback,
  Feature,
  Loading,
  On,
  ServiceProvider,
  useTokenService,
  useUsage,
} from "faregate/react";

const tokenSource = async () => {
  const answer = await fetch("/api/pricing-token");
  if (!answer.ok) throw new Error(`No pricing token: ${answer.status}`);
  return answer.text();
};

function NewTask() {
  const tokens = useTokenService();
  const { used, limit } = useUsage("tasker-board");
  const create = async () => {
    await fetch("/api/tasks", { method: "POST" });
    // The page shows the new usage as soon as it has a new token.
    tokens.update(await tokenSource());
  };
  return (
    <button onClick={create}>
      New task ({used} of {limit})
    </button>
  );
}

createRoot(document.getElementById("root")).render(
  <StrictMode>
    <ServiceProvider config={{ allowConnectionWithService: false, tokenSource }}>
      <Feature id="tasker-board">
        <On>
          <NewTask />
        </On>
        <Default>You have used all tasks of this month.</Default>
        <Loading>…</Loading>
        <ErrorFallback>Please sign in.</ErrorFallback>
      </Feature>
      <Feature id="tasker-export">
        <Default>Export comes with BUSINESS.</Default>
      </Feature>
    </ServiceProvider>
  </StrictMode>,
);
