import * as React from "react";
import { act, type ComponentType, type ReactNode, startTransition, useEffect, useState } from "react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  ServiceClient,
  type ServiceConfiguration,
  ServiceProvider,
  type TokenService,
  useConnectionStatus,
  useServiceClient,
  useTokenService,
} from "../../src/react/react.ts";
import { answerWith, grant, type LiveServer, startLiveServer } from "../client/front/live-server.ts";
import { inSeconds, mount, settle, Shown, thrownBy, token } from "./harness.tsx";

/* Source: contract clients §1.2, §1.4, §1.5 rows 3, 4, 13, 14, §1.10. Real sockets and requests against a stock Socket.IO server. */

let server: LiveServer;
let client: ServiceClient;
let tokens: TokenService;

beforeEach(async () => {
  server = await startLiveServer();
});
afterEach(async () => {
  vi.useRealTimers();
  await server.close();
});

function Grab() {
  const service = useServiceClient();
  const tokenService = useTokenService();
  useEffect(() => {
    client = service;
    tokens = tokenService;
  }, [service, tokenService]);
  return null;
}

function Status() {
  const { status } = useConnectionStatus();
  return <b>{status}</b>;
}

function SetUser({ id }: { id: string }) {
  const service = useServiceClient();
  useEffect(() => {
    service.setUserId(id).catch(() => {});
  }, [service, id]);
  return null;
}

const config = (more: Partial<ServiceConfiguration> = {}): ServiceConfiguration => ({
  url: server.url,
  apiKey: "org_key",
  ...more,
});
const page = (more: Partial<ServiceConfiguration> = {}, children: ReactNode = <Shown id="zoom-meetings" />) => (
  <ServiceProvider config={config(more)}>
    <Grab />
    {children}
  </ServiceProvider>
);
/** Sockets and requests answer when they do, outside of any `act`. */
const eventually = async (check: () => void) => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: false });
  try {
    await vi.waitFor(check, { timeout: 20_000, interval: 10 });
  } finally {
    Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  }
};
/** Every text that the page shows from now on; to be called before it is mounted. */
const texts = () => {
  const seen: string[] = [];
  const observer = new MutationObserver(() => {
    const text = document.body.textContent;
    if (text !== "" && seen.at(-1) !== text) seen.push(text);
  });
  observer.observe(document.body, { subtree: true, childList: true, characterData: true });
  return { seen, end: () => observer.disconnect() };
};
const quietly = (promise: Promise<unknown>) => promise.catch(() => {});

describe.each([{ strict: false }, { strict: true }])("with a connection, StrictMode $strict", ({ strict }) => {
  test("R4, R5, R6: exactly one handshake and one namespace; after unmounting nothing stays", async () => {
    const mounted = await mount(page({}, <Status />), { strict });
    await eventually(() => expect(mounted.text()).toBe("synchronized"));
    await settle(100);
    expect(server.handshakes).toHaveLength(1);
    expect(server.handshakes[0]).toMatch(/^\/events\/\?EIO=4&transport=websocket/);
    expect(server.joined).toEqual(["/pricings"]);
    await mounted.unmount();
    await eventually(() => expect(server.connections()).toBe(0));
  });

  test("unmounted before it connects, it never connects", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const mounted = await mount(page({}, <Status />), { strict });
    await mounted.unmount();
    vi.runAllTimers();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    await settle(100);
    expect(server.handshakes).toHaveLength(0);
  });

  test("unmounted while it connects, it leaves no connection", async () => {
    const mounted = await mount(page({}, <Status />), { strict });
    await eventually(() => expect(server.handshakes.length).toBe(1));
    await mounted.unmount();
    await settle(100);
    expect(server.connections()).toBe(0);
  });

  test("rows 3 and 5, R13: setUserId in an effect loads, then shows the feature, with one request and no error between", async () => {
    const shown = texts();
    const mounted = await mount(
      page(
        {},
        <>
          <Shown id="zoom-meetings" />
          <SetUser id="ada" />
        </>,
      ),
      { strict },
    );
    await eventually(() => expect(mounted.text()).toBe("ON"));
    shown.end();
    expect(shown.seen).toEqual(["LOADING", "ON"]);
    expect(server.calls.map(({ path }) => path)).toEqual(["/api/v1/features/ada/pricing-token"]);
  });

  test("row 4: a failed request shows the error, and the promise rejects", async () => {
    server.answer = (_user, response) => answerWith(response, { error: "Contract not found" }, 404);
    const mounted = await mount(page(), { strict });
    let failure: unknown;
    await act(async () => {
      const call = client.setUserId("ada").catch((error: unknown) => (failure = error));
      await Promise.resolve();
      expect(tokens.status).toBe("loading");
      await call;
    });
    expect(mounted.text()).toBe("ERROR");
    expect(failure).toMatchObject({ status: 404, message: "Contract not found" });
    expect(tokens.evaluateFeature("zoom-meetings")).toBeNull();
  });

  test("row 13: another user loads first, then has its own result; a failure shows the error (R3)", async () => {
    const mounted = await mount(page(), { strict });
    await act(() => client.setUserId("ada"));
    expect(mounted.text()).toBe("ON");
    server.answer = (_user, response) =>
      setTimeout(() => answerWith(response, { pricingToken: token({ "zoom-meetings": false }) }), 30);
    let change: Promise<void> | undefined;
    await act(async () => {
      change = client.setUserId("bob");
    });
    expect(mounted.text()).toBe("LOADING");
    expect(tokens.getPayload()).toBeNull();
    await act(async () => change);
    expect(mounted.text()).toBe("DEFAULT");
    server.answer = (_user, response) => answerWith(response, {}, 500);
    await act(() => quietly(client.setUserId("eve")));
    expect(mounted.text()).toBe("ERROR");
    expect(tokens.getPayload()).toBeNull();
  });

  test("row 14: the same user again keeps the old result until the answer, and after a failure", async () => {
    const mounted = await mount(page(), { strict });
    await act(() => client.setUserId("ada"));
    const before = tokens.getPayload();
    server.answer = (_user, response) => answerWith(response, {}, 500);
    await act(async () => {
      const again = quietly(client.setUserId("ada"));
      expect(tokens.getPayload()).toBe(before);
      await again;
    });
    expect(mounted.text()).toBe("ON");
    server.answer = (_user, response) => answerWith(response, { pricingToken: token({ "zoom-meetings": false }) });
    await act(() => client.refresh());
    expect(mounted.text()).toBe("DEFAULT");
  });

  test("row 10: it shows loading when the token expires while a refresh is under way", async () => {
    const mounted = await mount(page(), { strict });
    server.answer = (_user, response) =>
      answerWith(response, { pricingToken: token({ "zoom-meetings": true }, { exp: inSeconds(5) }) });
    await act(() => client.setUserId("ada"));
    expect(mounted.text()).toBe("ON");
    const held: (() => void)[] = [];
    server.answer = (user, response) => held.push(() => grant(user, response));
    let refresh: Promise<void> | undefined;
    await act(async () => {
      refresh = client.refresh();
    });
    expect(mounted.text()).toBe("ON");
    await eventually(() => expect(mounted.text()).toBe("LOADING"));
    await vi.waitFor(() => expect(held).toHaveLength(1), { timeout: 20_000 });
    held[0]?.();
    await act(async () => refresh);
    expect(mounted.text()).toBe("ON");
  });

  test("row 10: a token that comes from elsewhere during a request does not end the loading", async () => {
    const held: (() => void)[] = [];
    server.answer = (user, response) => held.push(() => grant(user, response));
    const mounted = await mount(page(), { strict });
    let asked: Promise<void> | undefined;
    await act(async () => {
      asked = client.setUserId("ada");
    });
    await act(async () => tokens.update(token({ "zoom-meetings": false })));
    expect(mounted.text()).toBe("DEFAULT");
    await act(async () => tokens.update(token({}, { exp: inSeconds(-1) })));
    expect(mounted.text()).toBe("LOADING");
    await vi.waitFor(() => expect(held).toHaveLength(1), { timeout: 20_000 });
    held[0]?.();
    await act(async () => asked);
    expect(mounted.text()).toBe("ON");
  });

  test("row 14: the initial token's own user keeps its result until the answer", async () => {
    const shown = texts();
    server.answer = (user, response) => setTimeout(() => grant(user, response), 30);
    const children = (
      <>
        <Shown id="zoom-meetings" />
        <SetUser id="ada" />
      </>
    );
    const initialToken = token({ "zoom-meetings": true }, { sub: "ada" });
    await mount(page({ initialToken }, children), { strict });
    await settle(100);
    shown.end();
    expect(shown.seen).toEqual(["ON"]);
    expect(server.calls).toHaveLength(1);
  });

  test("synchronized is heard once by a component that comes when that is already so", async () => {
    const heard = vi.fn();
    function Listen() {
      const service = useServiceClient();
      useEffect(() => service.on("synchronized", heard), [service]);
      return null;
    }
    const mounted = await mount(page({}, null), { strict });
    await eventually(() => expect(client.connected).toBe(true));
    await mounted.render(page({}, <Listen />));
    await settle(20);
    expect(heard.mock.calls).toEqual([[]]);
  });

  test("a channel closed in an effect stays closed, until it is opened", async () => {
    function Close() {
      const service = useServiceClient();
      useEffect(() => service.disconnectWebSocket(), [service]);
      return null;
    }
    const mounted = await mount(page({}, <Close />), { strict });
    await settle(100);
    expect(server.handshakes).toHaveLength(0);
    client.connectWebSocket();
    await eventually(() => expect(client.connected).toBe(true));
    await mounted.unmount();
    await eventually(() => expect(server.connections()).toBe(0));
  });

  test("after unmounting the client opens and asks nothing, and listeners that were left hear nothing", async () => {
    const mounted = await mount(page(), { strict });
    const heard = vi.fn();
    await act(() => client.setUserId("ada"));
    await act(async () => tokens.update(token({}, { exp: inSeconds(1) })));
    tokens.subscribe(heard);
    client.on("error", heard);
    client.on("synchronized", heard);
    await eventually(() => expect(client.connected).toBe(true));
    await settle(20);
    heard.mockClear();
    await mounted.unmount();
    await settle(20);
    client.connectWebSocket();
    await expect(client.setUserId("ada")).rejects.toMatchObject({ code: "ABORTED" });
    await expect(client.generateUserPricingToken()).rejects.toMatchObject({ code: "ABORTED" });
    await settle(1200);
    expect([server.calls.length, server.connections(), heard.mock.calls]).toEqual([1, 0, []]);
  });

  test("without permission to connect no timer runs but the token's, and none after unmounting", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const offline = { allowConnectionWithService: false };
    const mounted = await mount(<ServiceProvider config={offline} children={<Shown id="zoom-meetings" />} />, {
      strict,
    });
    expect(vi.getTimerCount()).toBe(0);
    await mounted.unmount();
    const initialToken = token({ "zoom-meetings": true });
    const other = await mount(
      <ServiceProvider config={{ ...offline, initialToken }} children={<Shown id="zoom-meetings" />} />,
      { strict },
    );
    vi.advanceTimersByTime(0);
    expect(vi.getTimerCount()).toBe(1);
    await other.unmount();
    vi.advanceTimersByTime(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("events reach the listeners of the component, under both spellings (R7)", async () => {
    const mounted = await mount(page({}, <Status />), { strict });
    await eventually(() => expect(mounted.text()).toBe("synchronized"));
    const heard: unknown[] = [];
    client.on("pricing_activated", (details) => heard.push(["activated", details]));
    client.on("pricing_actived", (details) => heard.push(["actived", details]));
    const details = { serviceName: "Zoom", pricingVersion: "2.0" };
    server.send({ code: "PRICING_ACTIVED", details });
    await eventually(() => expect(heard).toHaveLength(2));
    expect(heard).toEqual([
      ["activated", details],
      ["actived", details],
    ]);
  });
});

describe("the configuration", () => {
  test("as a new object with equal fields does nothing", async () => {
    const mounted = await mount(page({}, <Status />));
    await eventually(() => expect(mounted.text()).toBe("synchronized"));
    const before = client;
    await mounted.render(page({}, <Status />));
    await settle(50);
    expect(client).toBe(before);
    expect(server.handshakes).toHaveLength(1);
  });

  test("with another address or key gets a new client, and loses token, user and the old socket", async () => {
    const other = await startLiveServer();
    const mounted = await mount(page());
    await act(() => client.setUserId("ada"));
    await eventually(() => expect(client.connected).toBe(true));
    const before = client;
    await mounted.render(page({ url: other.url }));
    expect(mounted.text()).toBe("ERROR");
    expect(client).not.toBe(before);
    expect(client.httpUrl).toBe(`${other.url}/api/v1`);
    await expect(client.generateUserPricingToken()).rejects.toThrow("User ID is not set.");
    await expect(before.setUserId("ada")).rejects.toMatchObject({ code: "ABORTED" });
    await eventually(() => expect([server.connections(), other.connections()]).toEqual([0, 1]));
    await mounted.render(page({ url: other.url, apiKey: "another" }));
    expect(client.apiKey).toBe("another");
    await mounted.unmount();
    await eventually(() => expect(other.connections()).toBe(0));
    await other.close();
  });

  test("with another address is never painted with the token of the one before", async () => {
    const other = await startLiveServer();
    const Url = () => useServiceClient().httpUrl;
    const both = (
      <>
        <Shown id="zoom-meetings" />
        <Url />
      </>
    );
    await mount(page({}, both)).then(async (mounted) => {
      await act(() => client.setUserId("ada"));
      expect(mounted.text()).toContain("ON");
      const shown = texts();
      Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: false });
      // A transition's passive effects run in a task of their own, after the paint.
      startTransition(() => mounted.schedule(page({ url: other.url }, both)));
      await eventually(() => expect(mounted.text()).toContain(other.url));
      shown.end();
      expect(shown.seen.filter((text) => text.includes(other.url))).not.toContainEqual(expect.stringContaining("ON"));
      await mounted.unmount();
    });
    await eventually(() => expect(other.connections()).toBe(0));
    await other.close();
  });

  test("R26: switching the connection off and on keeps the token and the token service", async () => {
    const without = (
      <ServiceProvider config={config({ allowConnectionWithService: false })}>
        <Shown id="zoom-meetings" />
        <Status />
      </ServiceProvider>
    );
    const within = (
      <ServiceProvider config={config()}>
        <Shown id="zoom-meetings" />
        <Status />
        <Grab />
      </ServiceProvider>
    );
    const mounted = await mount(within);
    await act(() => client.setUserId("ada"));
    const [before, service] = [client, tokens];
    await eventually(() => expect(mounted.text()).toBe("ONsynchronized"));
    await mounted.render(without);
    await eventually(() => expect(server.connections()).toBe(0));
    expect(mounted.text()).toBe("ONdisabled");
    await mounted.render(within);
    await eventually(() => expect(mounted.text()).toBe("ONsynchronized"));
    expect(client).toBe(before);
    expect(tokens).toBe(service);
    await act(() => client.refresh());
    expect(server.calls).toHaveLength(2);
  });

  test("switched off, the client that is still held asks and opens nothing; switched on, effects may ask at once", async () => {
    const tree = (isAllowed: boolean, children: ReactNode) => (
      <ServiceProvider config={config({ allowConnectionWithService: isAllowed })}>
        <Shown id="zoom-meetings" />
        {children}
      </ServiceProvider>
    );
    const mounted = await mount(tree(true, <Grab />));
    await eventually(() => expect(client.connected).toBe(true));
    const held = client;
    await mounted.render(tree(false, null));
    await expect(held.setUserId("ada")).rejects.toMatchObject({ code: "ABORTED" });
    held.connectWebSocket();
    await settle(100);
    expect([server.calls.length, server.connections(), mounted.text()]).toEqual([0, 0, "ERROR"]);
    await mounted.render(tree(true, <SetUser id="ada" />));
    await eventually(() => expect(mounted.text()).toBe("ON"));
    await eventually(() => expect(server.connections()).toBe(1));
  });

  test("switched on for the first time, it keeps the token that was there", async () => {
    const mounted = await mount(
      <ServiceProvider config={{ allowConnectionWithService: false, initialToken: token({ "zoom-meetings": true }) }}>
        <Shown id="zoom-meetings" />
      </ServiceProvider>,
    );
    await mounted.render(
      <ServiceProvider config={config()}>
        <Shown id="zoom-meetings" />
      </ServiceProvider>,
    );
    expect(mounted.text()).toBe("ON");
    await eventually(() => expect(server.connections()).toBe(1));
  });

  test.each([{}, { url: "" }, { url: "h:5403" }, { url: "ftp://h" }])("%j is refused by name", async (wrong) => {
    expect(await thrownBy(<ServiceProvider config={wrong} />)).toMatchObject({
      message: expect.stringContaining("config.url"),
    });
  });

  test("only the literal false forbids connecting; the published name is read when the new one is absent", async () => {
    const statuses = async (more: Partial<ServiceConfiguration>) =>
      (await mount(<ServiceProvider config={config(more)} children={<Status />} />)).text();
    expect(await statuses({ allowConnectionWithSpace: false })).toBe("disabled");
    expect(await statuses({ allowConnectionWithService: true, allowConnectionWithSpace: false })).not.toBe("disabled");
    expect(await statuses({ allowConnectionWithService: 0 as unknown as boolean })).not.toBe("disabled");
    expect(
      await thrownBy(<ServiceProvider config={{ allowConnectionWithService: false }} children={<Grab />} />),
    ).toMatchObject({ message: "ServiceClient is not initialized: allowConnectionWithService is false" });
    expect(await thrownBy(<Grab />)).toMatchObject({
      message: "useServiceClient must be used within a ServiceProvider",
    });
  });

  test("without a key it mounts, and asking for a token rejects", async () => {
    await mount(page({ apiKey: undefined }));
    await expect(client.setUserId("ada")).rejects.toThrow("config.apiKey");
    expect(server.calls).toHaveLength(0);
    expect(tokens.status).toBe("none");
  });

  test("nested providers share nothing; the nearest wins", async () => {
    const mounted = await mount(
      <ServiceProvider config={config({ initialToken: token({ "zoom-meetings": true }) })}>
        <Shown id="zoom-meetings" />
        <ServiceProvider config={config({ initialToken: token({ "zoom-meetings": false }) })}>
          <Shown id="zoom-meetings" />
        </ServiceProvider>
      </ServiceProvider>,
    );
    expect(mounted.text()).toBe("ONDEFAULT");
    await eventually(() => expect(server.connections()).toBe(2));
  });

  test("a client of one's own is neither opened nor disposed of", async () => {
    const own = new ServiceClient({ url: server.url, apiKey: "org_key" });
    const mounted = await mount(
      <ServiceProvider client={own}>
        <Shown id="zoom-meetings" />
      </ServiceProvider>,
    );
    await act(() => own.setUserId("ada"));
    expect(mounted.text()).toBe("ON");
    expect(server.handshakes).toHaveLength(0);
    await mounted.unmount();
    await own.refresh();
    expect(server.calls).toHaveLength(2);
    own.dispose();
  });
});

describe("a token source", () => {
  test.each([{ strict: false }, { strict: true }])(
    "loads, then shows, with one call and no error between, also offline; StrictMode $strict",
    async ({ strict }) => {
      const shown = texts();
      const tokenSource = vi.fn(async () => token({ "zoom-meetings": true }));
      const mounted = await mount(
        <ServiceProvider
          config={{ allowConnectionWithService: false, tokenSource: () => tokenSource() }}
          children={<Shown id="zoom-meetings" />}
        />,
        { strict },
      );
      await eventually(() => expect(mounted.text()).toBe("ON"));
      shown.end();
      expect(shown.seen).toEqual(["LOADING", "ON"]);
      expect(tokenSource).toHaveBeenCalledTimes(1);
    },
  );

  test("of another key replaces the token of the previous user", async () => {
    const page = (user: string) => (
      <ServiceProvider
        key={user}
        config={{
          allowConnectionWithService: false,
          tokenSource: async () => token({ "zoom-meetings": user === "bob" }, { sub: user }),
        }}
      >
        <Shown id="zoom-meetings" />
      </ServiceProvider>
    );
    const mounted = await mount(page("ada"), { strict: true });
    await eventually(() => expect(mounted.text()).toBe("DEFAULT"));
    await mounted.render(page("bob"));
    await eventually(() => expect(mounted.text()).toBe("ON"));
  });

  test("that is still asked when the connection is switched off is waited for", async () => {
    const gives: ((text: string) => void)[] = [];
    const tokenSource = () => new Promise<string>((give) => gives.push(give));
    const tree = (isAllowed: boolean) => (
      <ServiceProvider
        config={config({ tokenSource, allowConnectionWithService: isAllowed })}
        children={<Shown id="zoom-meetings" />}
      />
    );
    const mounted = await mount(tree(true));
    await eventually(() => expect(gives).toHaveLength(1));
    await mounted.render(tree(false));
    await eventually(() => expect(gives).toHaveLength(2));
    expect(mounted.text()).toBe("LOADING");
    await act(async () => gives[1]?.(token({ "zoom-meetings": true })));
    expect(mounted.text()).toBe("ON");
  });

  test("that fails shows the error and tells the client's listeners", async () => {
    const errors: Error[] = [];
    function Listen() {
      const service = useServiceClient();
      useEffect(() => service.on("error", (error) => errors.push(error)), [service]);
      return null;
    }
    const tokenSource = async () => {
      throw new Error("no session");
    };
    const mounted = await mount(
      page(
        { tokenSource },
        <>
          <Shown id="zoom-meetings" />
          <Listen />
        </>,
      ),
    );
    await eventually(() => expect(mounted.text()).toBe("ERROR"));
    expect(errors).toMatchObject([{ message: "no session" }]);
  });

  test("is not asked while the initial token is good, and newest counts", async () => {
    const first = vi.fn(async () => token({}));
    const second = vi.fn(async () => token({ "zoom-meetings": false }));
    const initialToken = token({ "zoom-meetings": true });
    const mounted = await mount(page({ tokenSource: first, initialToken }));
    await settle(30);
    await mounted.render(page({ tokenSource: second, initialToken }));
    expect(mounted.text()).toBe("ON");
    await act(() => client.refresh());
    expect(mounted.text()).toBe("DEFAULT");
    expect([first.mock.calls.length, second.mock.calls.length]).toEqual([0, 1]);
  });
});

const Activity = (React as { Activity?: ComponentType<{ mode: string; children: ReactNode }> }).Activity;

test.runIf(Activity !== undefined)(
  "in a subtree that is hidden and shown again, the provider's client goes on with listeners, user and token",
  async () => {
    const heard: unknown[] = [];
    const hidden = (mode: string) =>
      Activity === undefined ? null : (
        <Activity mode={mode}>
          <ServiceProvider config={config()}>
            <Grab />
            <Shown id="zoom-meetings" />
          </ServiceProvider>
        </Activity>
      );
    const mounted = await mount(hidden("visible"));
    await act(() => client.setUserId("ada"));
    client.on("pricing_created", (details) => heard.push(details));
    await eventually(() => expect(client.connected).toBe(true));
    const before = client;
    await mounted.render(hidden("hidden"));
    await eventually(() => expect(server.connections()).toBe(0));
    await mounted.render(hidden("visible"));
    await eventually(() => expect(client.connected).toBe(true));
    expect(client).toBe(before);
    server.send({ code: "PRICING_CREATED", details: { serviceName: "Zoom" } });
    await eventually(() => expect(heard).toHaveLength(1));
    expect(mounted.text()).toBe("ON");
    expect(server.calls.every(({ path }) => path.includes("/ada/"))).toBe(true);
    await act(() => client.refresh());
  },
);

test.runIf(Activity !== undefined)(
  "in a subtree that is hidden and shown again while a token source is asked, the token still comes; effects may ask at once",
  async () => {
    const gives: ((text: string) => void)[] = [];
    const tokenSource = () => new Promise<string>((give) => gives.push(give));
    const tree = (mode: string, more: Partial<ServiceConfiguration>, children: ReactNode = null) =>
      Activity === undefined ? null : (
        <Activity mode={mode}>
          <ServiceProvider config={config(more)}>
            <Shown id="zoom-meetings" />
            {children}
          </ServiceProvider>
        </Activity>
      );
    const offline = { allowConnectionWithService: false, tokenSource };
    const mounted = await mount(tree("visible", offline));
    await eventually(() => expect(gives).toHaveLength(1));
    await mounted.render(tree("hidden", offline));
    await settle(20);
    await mounted.render(tree("visible", offline));
    await eventually(() => expect(gives).toHaveLength(2));
    expect(mounted.text()).toBe("LOADING");
    await act(async () => gives.forEach((give) => give(token({ "zoom-meetings": true }))));
    expect(mounted.text()).toBe("ON");
    await mounted.unmount();

    const other = await mount(tree("visible", {}, <SetUser id="ada" />));
    await eventually(() => expect(other.text()).toBe("ON"));
    await other.render(tree("hidden", {}, <SetUser id="ada" />));
    await settle(20);
    await other.render(tree("visible", {}, <SetUser id="ada" />));
    await eventually(() => expect(server.calls).toHaveLength(2));
  },
);

test("hidden and shown again, the same client connects again and keeps listeners, user and token", async () => {
  const heard: unknown[] = [];
  let show: (value: boolean) => void = () => {};
  function Toggle() {
    const [isShown, setShown] = useState(true);
    show = setShown;
    return isShown ? <ServiceProvider client={own} children={<Shown id="zoom-meetings" />} /> : null;
  }
  const own = new ServiceClient({ url: server.url, apiKey: "org_key" });
  let release = own.retain(true);
  own.on("pricing_created", (details) => heard.push(details));
  const mounted = await mount(<Toggle />);
  await act(() => own.setUserId("ada"));
  release();
  await act(async () => show(false));
  await eventually(() => expect(server.connections()).toBe(0));
  release = own.retain(true);
  await act(async () => show(true));
  await eventually(() => expect(own.connected).toBe(true));
  server.send({ code: "PRICING_CREATED", details: { serviceName: "Zoom", pricingVersion: "3" } });
  await eventually(() => expect(heard).toHaveLength(1));
  expect(mounted.text()).toBe("ON");
  release();
  await eventually(() => expect(server.connections()).toBe(0));
});
