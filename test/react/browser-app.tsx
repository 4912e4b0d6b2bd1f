import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import {
  Feature,
  type ServiceConfiguration,
  ServiceProvider,
  type TokenService,
  useServiceClient,
  useTokenService,
} from "../../src/react/react.ts";

/*
 * The application of browser.browser.test.ts: one page with a connection, one with tokens alone, chosen by what the test puts on the
 * window before it starts.
 */

declare global {
  interface Window {
    application?: { config: ServiceConfiguration; userId: string };
    tokens: TokenService;
    /** Every text that was on the page. */
    texts: string[];
  }
}

function Gated({ id, label }: { id: string; label: string }) {
  return (
    <Feature id={id}>
      <Feature.On>
        <button type="button">{label}</button>
      </Feature.On>
      <Feature.Default>No {label}.</Feature.Default>
      <Feature.Loading>Loading.</Feature.Loading>
      <Feature.ErrorFallback>No answer.</Feature.ErrorFallback>
    </Feature>
  );
}

function Connected({ userId }: { userId: string }) {
  const client = useServiceClient();
  const [heard, setHeard] = useState<string[]>([]);
  useEffect(() => {
    const hear = (text: string) => setHeard((before) => [...before, text]);
    const undo = [
      client.on("synchronized", () => hear("synchronized")),
      client.on("pricing_archived", ({ pricingVersion }) => hear(`archived ${pricingVersion}`)),
    ];
    client.setUserId(userId).catch((error: unknown) => hear(String(error)));
    return () => undo.forEach((leave) => leave());
  }, [client, userId]);
  return (
    <>
      <main>
        <Gated id="gazette-archive" label="Open the archive" />
      </main>
      <a href="#paid" onClick={() => void client.refresh()}>
        I have paid
      </a>
      <ul>
        {heard.map((text, at) => (
          <li key={at}>{text}</li>
        ))}
      </ul>
    </>
  );
}

function TokenOnly() {
  const tokens = useTokenService();
  useEffect(() => {
    window.tokens = tokens;
  }, [tokens]);
  return (
    <main>
      <Gated id="zoom-meetings" label="Meet" />
    </main>
  );
}

window.texts = [];
const place = document.body.appendChild(document.createElement("div"));
new MutationObserver(() => {
  const text = place.querySelector("main")?.textContent ?? "";
  if (window.texts.at(-1) !== text) window.texts.push(text);
}).observe(place, { subtree: true, childList: true, characterData: true });

const { application } = window;
createRoot(place).render(
  <StrictMode>
    {application === undefined ? (
      <ServiceProvider config={{ allowConnectionWithService: false }}>
        <TokenOnly />
      </ServiceProvider>
    ) : (
      <ServiceProvider config={application.config}>
        <Connected userId={application.userId} />
      </ServiceProvider>
    )}
  </StrictMode>,
);
