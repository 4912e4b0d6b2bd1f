import { act, type ReactNode, StrictMode } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { expect, test, vi } from "vitest";
import {
  type ServiceConfiguration,
  ServiceProvider,
  useConnectionStatus,
  useFeature,
  usePricingTokenPayload,
} from "../../src/react/react.ts";
import { startLiveServer } from "../client/front/live-server.ts";
import { inSeconds, Shown, settle, token } from "./harness.tsx";

/* Source: contract clients §1.5 rows 16 and 17, §1.10 "Render", §3.3 SSR. */

const OFFLINE: ServiceConfiguration = { allowConnectionWithService: false };
const page = (config: ServiceConfiguration, children: ReactNode = <Shown id="zoom-meetings" />) => (
  <ServiceProvider config={config}>{children}</ServiceProvider>
);

/** As it is where there is no DOM. */
function onServer(node: ReactNode): string {
  const { document, window } = globalThis;
  vi.stubGlobal("document", undefined);
  vi.stubGlobal("window", undefined);
  const complaints = vi.spyOn(console, "error");
  try {
    const html = renderToString(node);
    expect(complaints).not.toHaveBeenCalled();
    return html;
  } finally {
    complaints.mockRestore();
    vi.stubGlobal("document", document);
    vi.stubGlobal("window", window);
  }
}

/** Hydrates what the server rendered; the first text, the last, and everything that React complained about. */
async function hydrated(node: ReactNode, html = onServer(node)): Promise<{ after: string; complaints: unknown[] }> {
  const complaints: unknown[] = [];
  const quiet = vi.spyOn(console, "error").mockImplementation((...args) => void complaints.push(args));
  const place = document.body.appendChild(document.createElement("div"));
  place.innerHTML = html;
  const root = await act(async () =>
    hydrateRoot(place, node, { onRecoverableError: (error) => void complaints.push(error) }),
  );
  await settle(20);
  // A token source waits for the chunk that asks it, which takes its time where much else runs.
  for (let n = 0; n < 200 && place.textContent === "LOADING"; n += 1) await settle(10);
  const after = place.textContent;
  await act(async () => root.unmount());
  quiet.mockRestore();
  return { after, complaints };
}

test("row 16: without a token the server renders loading, and an error for an impossible id", () => {
  expect(onServer(page(OFFLINE))).toBe("LOADING");
  expect(onServer(page(OFFLINE, <Shown id="meetings" />))).toBe("ERROR");
});

test("row 17: with an initial token the server renders the result", () => {
  const features = { "zoom-on": true, "zoom-off": false };
  const config = { ...OFFLINE, initialToken: token(features) };
  const html = onServer(
    page(
      config,
      <>
        <Shown id="zoom-on" />
        <Shown id="zoom-off" />
        <Shown id="zoom-none" />
      </>,
    ),
  );
  expect(html.replaceAll("<!-- -->", "")).toBe("ONDEFAULTERROR");
});

test.each([
  { what: "no token", config: {}, after: "ERROR" },
  { what: "a good token", config: { initialToken: token({ "zoom-meetings": true }) }, after: "ON" },
  {
    what: "an expired token",
    config: { initialToken: token({ "zoom-meetings": true }, { exp: inSeconds(-9) }) },
    after: "ERROR",
  },
  {
    what: "no token but a source",
    config: { tokenSource: async () => token({ "zoom-meetings": false }) },
    after: "DEFAULT",
  },
])("with $what hydration finds what the server rendered and ends with $after", async ({ config, after }) => {
  for (const strict of [false, true]) {
    const node = page({ ...OFFLINE, ...config });
    expect(await hydrated(strict ? <StrictMode>{node}</StrictMode> : node)).toEqual({ after, complaints: [] });
  }
});

test("an expired initial token is rendered by server and browser alike, and leaves after hydration", async () => {
  const config = { ...OFFLINE, initialToken: token({ "zoom-meetings": true }, { exp: inSeconds(-9) }) };
  expect(onServer(page(config))).toBe("ON");
});

test("an initial token that is none is ignored, with a hint", () => {
  const warn = vi.spyOn(console, "warn").mockReturnValue();
  expect(onServer(page({ ...OFFLINE, initialToken: "nonsense" }))).toBe("LOADING");
  expect(warn.mock.calls.flat().join()).toContain("initialToken");
  warn.mockRestore();
});

test("R4: rendering on the server opens nothing, whatever the configuration", async () => {
  const server = await startLiveServer();
  const tokenSource = vi.fn(async () => token({}));
  function Everything() {
    const { status } = useConnectionStatus();
    const feature = useFeature("zoom-meetings");
    const payload = usePricingTokenPayload();
    return `${status} ${feature.status} ${payload === null}`;
  }
  const timers = vi.spyOn(globalThis, "setTimeout");
  const html = [1, 2, 3].map(() => onServer(page({ url: server.url, apiKey: "k", tokenSource }, <Everything />)));
  expect(timers).not.toHaveBeenCalled();
  timers.mockRestore();
  expect(new Set(html)).toEqual(new Set(["idle loading true"]));
  await settle(100);
  expect(server.handshakes).toHaveLength(0);
  expect(tokenSource).not.toHaveBeenCalled();
  await server.close();
});
