import { useEffect, useLayoutEffect } from "react";
import { createRoot } from "react-dom/client";
import { Feature, type ServiceClient, ServiceProvider, useServiceClient } from "../../src/react/react.ts";

/* The application of racing-users.browser.test.ts. Its address says where the service is and when the second user comes. */

/** How a load ended. */
export interface Load {
  /** Whose token is stored once every `setUserId` has settled. */
  user: unknown;
  /** How each `setUserId` settled, in the order of the calls. */
  outcomes: string[];
  /** The sub-components of the feature in the order of their commits. */
  shown: string[];
}

declare global {
  interface Window {
    load: Promise<Load>;
    client: ServiceClient;
  }
}

const parameters = new URLSearchParams(location.search);
const delayMs = parameters.get("delayMs");
const config = { url: parameters.get("url") ?? "", apiKey: parameters.get("key") ?? "" };
const shown: string[] = [];
let finish: (load: Load) => void;
window.load = new Promise((resolve, reject) => {
  finish = resolve;
  addEventListener("error", ({ error }) => reject(error));
});

/** Records its own commit: an element that is replaced before the next paint counts, too. */
function Mark({ name }: { name: string }) {
  useLayoutEffect(() => {
    shown.push(name);
  }, [name]);
  return name;
}

function Page() {
  const client = useServiceClient();
  useEffect(() => {
    window.client = client;
    const outcomes: Promise<string>[] = [];
    const setUser = (userId: string) => {
      outcomes.push(
        client.setUserId(userId).then(
          () => "resolved",
          (error: unknown) => String(error),
        ),
      );
    };
    const run = async () => {
      setUser("ada");
      if (delayMs !== null) {
        await new Promise((resolve) => setTimeout(resolve, Number(delayMs)));
        setUser("bob");
      }
      const settled = await Promise.all(outcomes);
      // React commits what the last answer changed.
      await new Promise((resolve) => setTimeout(resolve));
      finish({ user: client.token.getKey("sub"), outcomes: settled, shown });
    };
    void run();
  }, [client]);
  return (
    <Feature id="gazette-archive">
      <Feature.On>
        <Mark name="on" />
      </Feature.On>
      <Feature.Default>
        <Mark name="default" />
      </Feature.Default>
      <Feature.Loading>
        <Mark name="loading" />
      </Feature.Loading>
      <Feature.ErrorFallback>
        <Mark name="error" />
      </Feature.ErrorFallback>
    </Feature>
  );
}

createRoot(document.body.appendChild(document.createElement("main"))).render(
  <ServiceProvider config={config}>
    <Page />
  </ServiceProvider>,
);
