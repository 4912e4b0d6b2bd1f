import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { serviceAddress } from "../../../src/client/address.ts";
import { InvalidPricingTokenError } from "../../../src/client/invalid-pricing-token-error.ts";
import { ServiceRequestError } from "../../../src/client/service-request-error.ts";
import {
  fetchWithPricingToken,
  pricingTokenInterceptor,
  takePricingToken,
} from "../../../src/client/front/response-header.ts";
import { ServiceClient } from "../../../src/client/front/service-client.ts";
import type { ServiceEvents } from "../../../src/client/front/service-events.ts";
import { createTestToken } from "../../../src/client/front/test-token.ts";
import { TokenService } from "../../../src/client/front/token-service.ts";
import { answerWith, type LiveServer, startLiveServer } from "./live-server.ts";

/* Source: contract clients §1.3, §1.8, §1.9, §1.12. Requests go over real HTTP. */

let server: LiveServer;
let client: ServiceClient;

beforeEach(async () => {
  server = await startLiveServer();
  client = new ServiceClient({ url: server.url, apiKey: "org_key" });
});
afterEach(async () => {
  client.dispose();
  await server.close();
});

/** On a busy machine. */
const SOON = { timeout: 20_000 };
const later = (milliseconds: number) => new Promise<void>((done) => setTimeout(done, milliseconds));
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("addresses", () => {
  test.each([
    ["http://h:5403", "http://h:5403/api/v1", "ws://h:5403/api/v1/events", "ws://h:5403", "/events/"],
    ["http://h:5403/api/v1", "http://h:5403/api/v1", "ws://h:5403/api/v1/events", "ws://h:5403", "/events/"],
    [
      "http://h:5403/space/api/v1/",
      "http://h:5403/space/api/v1",
      "ws://h:5403/space/api/v1/events",
      "ws://h:5403",
      "/space/events/",
    ],
    ["http://h:5403/", "http://h:5403/api/v1", "ws://h:5403/api/v1/events", "ws://h:5403", "/events/"],
    [
      "http://h:5403/space",
      "http://h:5403/space/api/v1",
      "ws://h:5403/space/api/v1/events",
      "ws://h:5403",
      "/space/events/",
    ],
    ["https://h/a/b//?x=1#y", "https://h/a/b/api/v1", "wss://h/a/b/api/v1/events", "wss://h", "/a/b/events/"],
    ["HTTPS://H", "https://h/api/v1", "wss://h/api/v1/events", "wss://h", "/events/"],
  ])("of %s", (url, httpUrl, wsUrl, socketOrigin, enginePath) => {
    expect(serviceAddress(url)).toEqual({ httpUrl, wsUrl, socketOrigin, enginePath });
    const made = new ServiceClient({ url, apiKey: "k" });
    expect([made.httpUrl, made.wsUrl, made.apiKey]).toEqual([httpUrl, wsUrl, "k"]);
    expect(made.token).toBeInstanceOf(TokenService);
  });
  test.each(["ftp://h", "h:5403", "", "/relative", undefined, 7])("of %j are refused", (url) => {
    expect(() => serviceAddress(url)).toThrow("config.url");
  });
});

describe("setUserId", () => {
  test("asks with the key, without a body, and stores the token", async () => {
    expect(await client.setUserId("ada")).toBeUndefined();
    expect(client.token.evaluateFeature("zoom-meetings")).toBe(true);
    const [call] = server.calls;
    expect(call).toMatchObject({ method: "POST", path: "/api/v1/features/ada/pricing-token", body: "" });
    expect(call?.headers).toMatchObject({ "x-api-key": "org_key", accept: "application/json", "content-length": "0" });
    expect(call?.headers["content-type"]).toBeUndefined();
    expect(call?.headers.cookie).toBeUndefined();
  });

  test("R19: percent-encodes the user, and refuses those that URL parsing would turn into another path", async () => {
    for (const user of ["a/b", "a b", "é", "?#%", " x "]) await client.setUserId(user);
    expect(server.calls.map(({ path }) => path.split("/")[4])).toEqual([
      "a%2Fb",
      "a%20b",
      "%C3%A9",
      "%3F%23%25",
      "%20x%20",
    ]);
    for (const user of [".", "..", "a\ud800"]) {
      await expect(client.setUserId(user)).rejects.toThrow("User ID must not be");
    }
    expect(client.token.getKey("sub")).toBe(" x ");
    expect(server.calls).toHaveLength(5);
  });

  test.each([undefined, null, 7, "", "   "])("refuses %j and leaves everything as it was", async (user) => {
    await client.setUserId("ada");
    const before = client.token.getPayload();
    await expect(client.setUserId(user as string)).rejects.toThrow("User ID must be a non-empty string.");
    expect(client.token.getPayload()).toBe(before);
    await client.generateUserPricingToken();
    expect(server.calls.at(-1)?.path).toContain("/ada/");
  });

  test("for the same user while the first call is pending shares its request", async () => {
    await Promise.all([client.setUserId("ada"), client.setUserId("ada")]);
    expect(server.calls).toHaveLength(1);
    await client.setUserId("ada");
    expect(server.calls).toHaveLength(2);
  });

  test("R2: of racing users the last wins, whatever the order of the answers; the earlier promise follows", async () => {
    server.answer = (user, response) =>
      setTimeout(
        () =>
          answerWith(response, { pricingToken: createTestToken({ sub: user, features: { [`zoom-${user}`]: true } }) }),
        user === "ada" ? 60 : 10,
      );
    const first = client.setUserId("ada");
    await later(20);
    const second = client.setUserId("bob");
    await Promise.all([first, second]);
    expect(client.token.getKey("sub")).toBe("bob");
    await later(80);
    expect(client.token.getKey("sub")).toBe("bob");
    expect(client.token.evaluateFeature("zoom-ada")).toBeNull();
  });

  test("R2: a user set by a listener, while earlier calls wait for the lazy chunk, wins over the users of those calls", async () => {
    let byListener: Promise<void> | undefined;
    client.subscribeConnection(() => (byListener ??= client.setUserId("bob")));
    client.connect();
    await client.setUserId("ada");
    await byListener;
    expect(client.token.getKey("sub")).toBe("bob");
    await later(50);
    expect(client.token.getKey("sub")).toBe("bob");
  });

  test("R2: the earlier promise rejects when the later user's request fails", async () => {
    server.answer = (user, response) =>
      setTimeout(
        () => (user === "ada" ? answerWith(response, {}, 200) : answerWith(response, { error: "no bob" }, 403)),
        10,
      );
    const results = await Promise.all([failure(client.setUserId("ada")), failure(client.setUserId("bob"))]);
    expect(results).toMatchObject([{ message: "no bob" }, { message: "no bob" }]);
  });

  test("a failure leaves the user set, so that the next refresh asks for that user", async () => {
    server.answer = (_user, response) => answerWith(response, {}, 500);
    await failure(client.setUserId("ada"));
    await failure(client.refresh());
    expect(server.calls.map(({ path }) => path.includes("/ada/"))).toEqual([true, true]);
  });

  test("after disposal rejects, aborts what is under way and stores nothing (R20)", async () => {
    server.answer = (user, response) =>
      setTimeout(() => answerWith(response, { pricingToken: createTestToken({ sub: user }) }), 50);
    const pending = failure(client.setUserId("ada"));
    await vi.waitFor(() => expect(server.calls).toHaveLength(1), SOON);
    const other = failure(client.generateUserPricingToken());
    client.dispose();
    expect(await pending).toMatchObject({ code: "ABORTED", status: undefined });
    expect(await other).toMatchObject({ code: "ABORTED" });
    await later(80);
    expect(client.token.status).toBe("none");
    expect(await failure(client.setUserId("ada"))).toMatchObject({ code: "ABORTED" });
    expect(await failure(client.generateUserPricingToken())).toMatchObject({ code: "ABORTED" });
  });
});

describe("sign-out by clear()", () => {
  test("aborts the token request in flight, and the user's token is never stored", async () => {
    const closed = vi.fn();
    const responses: (() => void)[] = [];
    server.answer = (user, response) => {
      response.on("close", closed);
      responses.push(() => answerWith(response, { pricingToken: createTestToken({ sub: user }) }));
    };
    const pending = failure(client.setUserId("ada"));
    await vi.waitFor(() => expect(responses).toHaveLength(1), SOON);
    client.token.clear();
    expect(client.token.status).toBe("none");
    expect(await pending).toMatchObject({ code: "ABORTED" });
    await vi.waitFor(() => expect(closed).toHaveBeenCalledTimes(1), SOON);
    responses[0]?.();
    await later(30);
    expect(client.token.status).toBe("none");
  });

  test("aborts a setUserId that waits for the lazy chunk, without a request", async () => {
    const pending = failure(client.setUserId("ada"));
    client.token.clear();
    expect(client.token.status).toBe("none");
    expect(await pending).toMatchObject({ code: "ABORTED" });
    expect(server.calls).toHaveLength(0);
  });

  test("removes the user: refresh sends no request until setUserId sets a user again", async () => {
    await client.setUserId("ada");
    client.token.clear();
    await client.refresh();
    await expect(client.generateUserPricingToken()).rejects.toThrow("User ID is not set.");
    expect(server.calls).toHaveLength(1);
    await client.setUserId("ada");
    await client.refresh();
    expect(client.token.getKey("sub")).toBe("ada");
    expect(server.calls).toHaveLength(3);
  });

  test("in a listener of the sign-out, setUserId loads the next user", async () => {
    await client.setUserId("ada");
    let next: Promise<void> | undefined;
    client.token.subscribe(() => (next ??= client.setUserId("bob")));
    client.token.clear();
    await next;
    expect(client.token.getKey("sub")).toBe("bob");
  });
});

describe("a token that was there before", () => {
  test.each([
    { sub: "ada", status: "valid" },
    { sub: "bob", status: "loading" },
    { sub: undefined, status: "loading" },
  ])("of $sub is $status while ada's is asked for", async ({ sub, status }) => {
    client.token.update(createTestToken({ sub, features: { "zoom-old": true } }));
    const asked = client.setUserId("ada");
    expect(client.token.status).toBe(status);
    await asked;
    expect(client.token.evaluateFeature("zoom-old")).toBeNull();
  });
});

describe("released by the last who retained it, or retained without the service", () => {
  const outcomes = () =>
    Promise.all([client.setUserId("ada"), client.generateUserPricingToken(), client.refresh()].map(failure));
  const nothingMore = async (stored: unknown) => {
    client.connectWebSocket();
    await later(80);
    expect([server.calls.length, server.handshakes.length, client.connection.status]).toEqual([1, 0, "idle"]);
    expect(client.token.getPayload()).toBe(stored);
  };

  test("it aborts what is asked of it, opens and stores nothing, and goes on when retained again", async () => {
    const release = client.retain(true);
    client.disconnect();
    await client.setUserId("ada");
    const before = client.token.getPayload();
    release();
    await later(5);
    expect(await outcomes()).toMatchObject([{ code: "ABORTED" }, { code: "ABORTED" }, undefined]);
    expect(await failure(client.setUserId("bob"))).toMatchObject({ code: "ABORTED" });
    await nothingMore(before);
    client.retain(true);
    await client.setUserId("ada");
    await later(5);
    await client.refresh();
    expect(server.calls).toHaveLength(3);
  });

  test("the same without the service, from the moment it is told", async () => {
    await client.setUserId("ada");
    const before = client.token.getPayload();
    client.retain(false);
    expect(await outcomes()).toMatchObject(Array.from({ length: 3 }, () => ({ code: "ABORTED" })));
    await nothingMore(before);
  });

  test("a call that came before its code was loaded is aborted, and nothing goes on loading", async () => {
    const asked = failure(client.setUserId("ada"));
    expect(client.token.status).toBe("loading");
    client.retain(false);
    expect(await asked).toMatchObject({ code: "ABORTED" });
    await later(5);
    expect([client.token.status, server.calls.length]).toEqual(["none", 0]);
  });

  test("only its token source is asked without the service, even where a user is set", async () => {
    const own = createTestToken({ sub: "source" });
    client.tokenSource = async () => own;
    await client.setUserId("ada");
    client.token.clear();
    client.retain(false);
    await vi.waitFor(() => expect(client.token.getKey("sub")).toBe("source"), SOON);
    expect(server.calls).toHaveLength(1);
  });
});

describe("generateUserPricingToken", () => {
  test("rejects without a user", async () => {
    await expect(client.generateUserPricingToken()).rejects.toThrow(
      "User ID is not set. Please set the user ID with `setUserId(userId)` before trying to generate a pricing token.",
    );
  });

  test("asks once a call, and neither stores the answer nor looks into it", async () => {
    await client.setUserId("ada");
    const before = client.token.getPayload();
    server.answer = (_user, response) => answerWith(response, { pricingToken: "anything" });
    expect(await Promise.all([client.generateUserPricingToken(), client.generateUserPricingToken()])).toEqual([
      "anything",
      "anything",
    ]);
    expect(server.calls).toHaveLength(3);
    expect(client.token.getPayload()).toBe(before);
  });
});

describe("a request that fails", () => {
  test("with a status says it in both shapes, and never holds the key (R29)", async () => {
    server.answer = (_user, response) => answerWith(response, { error: "Contract not found" }, 404);
    const error = await failure(client.setUserId("ada"));
    expect(error).toBeInstanceOf(ServiceRequestError);
    expect(error).toMatchObject({
      code: "HTTP",
      message: "Contract not found",
      status: 404,
      body: { error: "Contract not found" },
      response: { status: 404, data: { error: "Contract not found" } },
    });
    expect(JSON.stringify([error, String(error)])).not.toContain("org_key");
  });

  test.each([
    { body: {}, what: "no pricingToken" },
    { body: { pricingToken: 7 }, what: "a number" },
    { body: { pricingToken: "" }, what: "empty text" },
    { body: null, what: "null" },
  ])("R20: with status 200 and $what is a BAD_RESPONSE", async ({ body }) => {
    server.answer = (_user, response) => answerWith(response, body);
    expect(await failure(client.setUserId("ada"))).toMatchObject({ code: "BAD_RESPONSE", status: 200 });
  });

  test("by an unreadable token keeps the one before it", async () => {
    await client.setUserId("ada");
    const before = client.token.getPayload();
    server.answer = (_user, response) => answerWith(response, { pricingToken: "nonsense" });
    expect(await failure(client.refresh())).toBeInstanceOf(InvalidPricingTokenError);
    expect(client.token.getPayload()).toBe(before);
  });

  test("by the network, without any answer", async () => {
    server.answer = (_user, response) => response.destroy();
    expect(await failure(client.setUserId("ada"))).toMatchObject({
      code: "NETWORK",
      status: undefined,
      response: undefined,
    });
  });

  test("by time, after ten seconds (R20)", async () => {
    const deaf: typeof fetch = (_url, init) =>
      new Promise((_done, fail) => init?.signal?.addEventListener("abort", () => fail(new Error("aborted"))));
    const waiting = new ServiceClient({ url: server.url, apiKey: "k", fetch: deaf });
    await failure(waiting.generateUserPricingToken());
    vi.useFakeTimers();
    const outcome = failure(waiting.setUserId("ada"));
    await vi.advanceTimersByTimeAsync(9_999);
    expect(waiting.token.status).toBe("loading");
    await vi.advanceTimersByTimeAsync(1);
    expect(await outcome).toMatchObject({ code: "TIMEOUT" });
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test("by time and by disposal also where fetch ignores its signal", async () => {
    const waiting = new ServiceClient({ url: server.url, apiKey: "k", fetch: () => new Promise(() => {}) });
    await failure(waiting.generateUserPricingToken());
    vi.useFakeTimers();
    const outcome = failure(waiting.setUserId("ada"));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await outcome).toMatchObject({ code: "TIMEOUT" });
    const others = [failure(waiting.setUserId("bob")), failure(waiting.generateUserPricingToken())];
    await vi.advanceTimersByTimeAsync(10);
    waiting.dispose();
    expect(await Promise.all(others)).toMatchObject([{ code: "ABORTED" }, { code: "ABORTED" }]);
    await vi.advanceTimersByTimeAsync(0);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test("because there is no fetch at all", async () => {
    vi.stubGlobal("fetch", undefined);
    expect(await failure(client.setUserId("ada"))).toMatchObject({ code: "NETWORK" });
    vi.unstubAllGlobals();
  });
});

describe("listeners", () => {
  const details = { serviceName: "Zoom", pricingVersion: "1" };
  const emit = (event: ServiceEvents) => client.events.emit(event, details);

  test("are refused for unknown events and when they are no functions", () => {
    expect(() => client.on("pricing_deleted" as ServiceEvents, () => {})).toThrow(
      "Event 'pricing_deleted' is not recognized.",
    );
    for (const name of ["constructor", "PRICING_CREATED", "toString"]) {
      expect(() => client.on(name as ServiceEvents, () => {})).toThrow("is not recognized");
      expect(() => client.off(name as ServiceEvents)).not.toThrow();
    }
    for (const name of ["error", "bogus"]) {
      expect(() => client.on(name as "error", undefined as unknown as () => void)).toThrow(
        `Callback for event '${name}' must be a function.`,
      );
    }
  });

  test("R7: of pricing_activated and pricing_actived share a channel; one registration is called once", () => {
    const heard = vi.fn();
    client.on("pricing_activated", heard);
    client.on("pricing_actived", heard);
    emit("pricing_activated");
    expect(heard.mock.calls).toEqual([[details]]);
    client.off("pricing_actived", heard);
    emit("pricing_activated");
    expect(heard).toHaveBeenCalledTimes(1);
  });

  test("R8: off removes that callback, all of an event, or everything", () => {
    const [a, b, c] = [vi.fn(), vi.fn(), vi.fn()];
    client.on("pricing_created", a);
    client.on("pricing_created", b);
    const undo = client.on("pricing_archived", c);
    client.off("pricing_created", a);
    emit("pricing_created");
    expect([a, b].map((heard) => heard.mock.calls.length)).toEqual([0, 1]);
    client.off("pricing_created");
    emit("pricing_created");
    expect(b).toHaveBeenCalledTimes(1);
    undo();
    undo();
    emit("pricing_archived");
    client.on("pricing_archived", c);
    client.on("service_disabled", c);
    client.off();
    emit("pricing_archived");
    emit("service_disabled");
    expect(c).not.toHaveBeenCalled();
  });

  test("R17: one that throws is reported and stops no other; one removed meanwhile is not called", () => {
    const quiet = vi.spyOn(console, "error").mockReturnValue();
    const heard = vi.fn();
    const removed = vi.fn();
    client.on("pricing_created", () => {
      client.off("pricing_created", removed);
      throw new Error("listener");
    });
    client.on("pricing_created", removed);
    client.on("pricing_created", heard);
    emit("pricing_created");
    expect(heard).toHaveBeenCalledTimes(1);
    expect(removed).not.toHaveBeenCalled();
    expect(quiet).toHaveBeenCalledTimes(1);
    quiet.mockRestore();
  });
});

describe("a back end's Pricing-Token header", () => {
  const answer = (value?: string) =>
    new Response("body", value === undefined ? {} : { headers: { "Pricing-Token": value } });

  test("is taken over by the wrapped fetch; absent nothing happens, malformed the listener hears", async () => {
    const tokens = new TokenService();
    const onError = vi.fn();
    const values = [createTestToken({ sub: "ada" }), undefined, "nonsense", ""];
    const wrapped = fetchWithPricingToken(tokens, { fetch: async () => answer(values.shift()), onError });
    for (let call = 0; call < 4; call += 1) expect(await (await wrapped("http://h")).text()).toBe("body");
    expect(tokens.getKey("sub")).toBe("ada");
    expect(onError.mock.calls).toEqual([[expect.any(InvalidPricingTokenError)]]);
  });

  test("is taken over by the axios interceptor, from both shapes of headers", () => {
    const tokens = new TokenService();
    const intercept = pricingTokenInterceptor(tokens);
    const plain = { status: 200, headers: { "pricing-token": createTestToken({ sub: "ada" }) } };
    expect(intercept(plain)).toBe(plain);
    expect(tokens.getKey("sub")).toBe("ada");
    intercept({ headers: answer(createTestToken({ sub: "bob" })).headers });
    expect(tokens.getKey("sub")).toBe("bob");
    expect(() => intercept({ headers: { "pricing-token": "nonsense" } })).not.toThrow();
  });

  const late = (tokens: TokenService, value: string) => {
    let respond: (response: Response) => void = () => {};
    const response = new Promise<Response>((resolve) => (respond = resolve));
    const arrived = fetchWithPricingToken(tokens, { fetch: () => response })("http://h");
    return async () => {
      respond(answer(value));
      await arrived;
    };
  };

  test.each([
    { change: "setUserId of another user", to: () => client.setUserId("bob"), user: "bob" },
    {
      change: "a token of another user",
      to: (t: TokenService) => t.update(createTestToken({ sub: "bob" })),
      user: "bob",
    },
    { change: "a sign-out", to: (t: TokenService) => t.clear(), user: null },
  ])("is ignored when the user changed after the request was sent: $change", async ({ to, user }) => {
    const tokens = client.token;
    await client.setUserId("ada");
    if (user === "bob") tokens.clear();
    tokens.update(createTestToken({ sub: "ada" }));
    const arrive = late(tokens, createTestToken({ sub: "ada" }));
    await to(tokens);
    await arrive();
    expect(tokens.getKey("sub")).toBe(user);
  });

  test("is ignored after a sign-out that came before the first token", async () => {
    const tokens = new TokenService();
    const arrive = late(tokens, createTestToken({ sub: "ada" }));
    tokens.clear();
    await arrive();
    expect(tokens.status).toBe("none");
  });

  test("of the present user is stored although the request was sent before the first token", async () => {
    const tokens = new TokenService();
    const arrive = late(tokens, createTestToken({ sub: "ada", plan: "new" }));
    tokens.update(createTestToken({ sub: "ada" }));
    await arrive();
    expect(tokens.getKey("plan")).toBe("new");
  });

  test("of another user than that of setUserId is ignored by the axios interceptor", async () => {
    await client.setUserId("bob");
    const intercept = pricingTokenInterceptor(client.token);
    intercept({ headers: { "pricing-token": createTestToken({ sub: "ada" }) } });
    expect(client.token.getKey("sub")).toBe("bob");
    intercept({ headers: { "pricing-token": createTestToken({ sub: "bob", plan: "new" }) } });
    expect(client.token.getKey("plan")).toBe("new");
  });

  test("disturbs nothing when it is malformed and its listener throws, which is reported", () => {
    const quiet = vi.spyOn(console, "error").mockReturnValue();
    const thrown = new Error("listener");
    const onError = () => {
      throw thrown;
    };
    expect(() => takePricingToken(new TokenService(), { "pricing-token": "nonsense" }, onError)).not.toThrow();
    expect(quiet.mock.calls).toEqual([[thrown]]);
    quiet.mockRestore();
  });
});
