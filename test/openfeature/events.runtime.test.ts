import { OpenFeature as Server, ProviderEvents as ServerEvents } from "@openfeature/server-sdk";
import { NOOP_PROVIDER, OpenFeature as Web, ProviderEvents as WebEvents } from "@openfeature/web-sdk";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FaregateProvider } from "../../src/openfeature/server.ts";
import { FaregateWebProvider } from "../../src/openfeature/web.ts";
import { type Backend, startBackend } from "./backend.ts";

/*
 * Tests events of both providers against the real server process while the line is cut and mended. An event must also
 * change the answers. Source: OpenFeature specification §5 and appendix F.
 */

let backend: Backend;
const page = Web.getClient("page");
const backEnd = Server.getClient("back end");
const pageEvents: string[] = [];
const changedFlags: (string[] | undefined)[] = [];
const backEndEvents: string[] = [];
const ada = { targetingKey: "ada" };

const soon = { timeout: 15_000, interval: 20 };

beforeAll(async () => {
  backend = await startBackend();
  await backend.contract("ada");
  await backend.contract("bob");
  for (const event of Object.values(WebEvents)) page.addHandler(event, () => pageEvents.push(event));
  page.addHandler(WebEvents.ConfigurationChanged, (details) => changedFlags.push(details?.flagsChanged));
  for (const event of Object.values(ServerEvents)) backEnd.addHandler(event, () => backEndEvents.push(event));
  const options = { url: backend.url, apiKey: backend.key };
  await Web.setProviderAndWait("page", new FaregateWebProvider(options), ada);
  await Server.setProviderAndWait("back end", new FaregateProvider(options));
  // The previous no-op provider emits READY, too.
  for (const events of [pageEvents, backEndEvents])
    expect(new Set(events.splice(0))).toEqual(new Set([WebEvents.Ready]));
});
afterAll(async () => {
  await Promise.all([Server.close(), Web.close()]);
  await backend.close();
});

test("archiving a pricing signals the changed flag to the page and changes the answer", async () => {
  expect(page.getBooleanValue("boolean-changing-flag", false)).toBe(true);
  await backend.succeed(2, false);
  await vi.waitFor(() => expect(changedFlags).toEqual([["boolean-changing-flag"]]), soon);
  expect(page.getBooleanValue("boolean-changing-flag", true)).toBe(false);
  expect(pageEvents.splice(0)).toEqual([WebEvents.ConfigurationChanged]);
  expect(await backEnd.getBooleanValue("boolean-changing-flag", true, ada)).toBe(false);
});

test("both providers turn stale with their last answers when the line is lost, and ready with current ones afterwards", async () => {
  await backend.line.cut();
  await vi.waitFor(() => expect(page.providerStatus).toBe("STALE"), soon);
  expect(page.getBooleanDetails("boolean-flag", false)).toMatchObject({ value: true, reason: "STALE", variant: "on" });
  expect(await backEnd.getBooleanDetails("boolean-changing-flag", true, ada)).toMatchObject({
    value: false,
    reason: "STALE",
  });
  expect(await backEnd.getBooleanDetails("boolean-flag", false, ada)).toMatchObject({
    value: false,
    reason: "ERROR",
    errorCode: "GENERAL",
  });
  expect(backEnd.providerStatus).toBe("STALE");
  await backend.succeed(3, true);
  expect(page.getBooleanValue("boolean-changing-flag", true)).toBe(false);

  await backend.line.mend();
  const changing = () => backEnd.getBooleanDetails("boolean-changing-flag", false, ada);
  await vi.waitFor(
    async () => expect(await changing()).toMatchObject({ value: true, reason: "TARGETING_MATCH" }),
    soon,
  );
  expect(backEnd.providerStatus).toBe("READY");
  expect(backEndEvents).toEqual([ServerEvents.Stale, ServerEvents.Ready]);
  await vi.waitFor(() => expect(page.providerStatus).toBe("READY"), soon);
  expect(page.getBooleanDetails("boolean-changing-flag", false)).toMatchObject({
    value: true,
    reason: "CACHED",
  });
  expect(pageEvents).toEqual([WebEvents.Stale, WebEvents.Ready, WebEvents.ConfigurationChanged]);
  expect(changedFlags.at(-1)).toEqual(["boolean-changing-flag"]);
});

test("a page that changes its user never returns the previous user's answers", async () => {
  await backend.use("bob", 10);
  expect(page.getBooleanValue("boolean-limited-flag", false)).toBe(true);
  const changed = Web.setContext("page", { targetingKey: "bob" });
  expect(page.providerStatus).toBe("RECONCILING");
  expect(page.getBooleanDetails("boolean-limited-flag", false)).toMatchObject({
    value: false,
    errorCode: "PROVIDER_NOT_READY",
  });
  await changed;
  expect(page.providerStatus).toBe("READY");
  expect(page.getBooleanDetails("boolean-limited-flag", true)).toMatchObject({
    value: false,
    flagMetadata: { limit: 10, used: 10, remaining: 0 },
  });
  await Web.setContext("page", {});
  expect(page.providerStatus).toBe("ERROR");
  expect(page.getBooleanDetails("boolean-limited-flag", true)).toMatchObject({
    value: true,
    errorCode: "TARGETING_KEY_MISSING",
  });
});

test("the budgets of the spender in the page's context decide", async () => {
  const { call, callers } = backend.api;
  const { key } = callers.all;
  const budget = { limit: "boolean-tasks", spender: "grace", amount: 0 };
  expect((await call("PUT", "/contracts/ada/budgets/none", { key, body: budget })).status).toBe(201);
  const details = async (spender?: string | number) => {
    await Web.setContext("page", spender === undefined ? ada : { ...ada, spender });
    return page.getBooleanDetails("boolean-limited-flag", true);
  };
  expect(await details("grace/notes")).toMatchObject({ value: false });
  expect(await details("alan")).toMatchObject({ value: true, reason: "CACHED" });
  for (const wrong of ["a//b", 3]) expect(await details(wrong)).toMatchObject({ errorCode: "INVALID_CONTEXT" });
  expect(await details()).toMatchObject({ value: true, reason: "CACHED" });
  expect((await call("DELETE", "/contracts/ada/budgets/none", { key })).status).toBe(204);
});

test("a spender who is no member is an INVALID_CONTEXT, in the page and in the back end", async () => {
  const { call, callers } = backend.api;
  const { key } = callers.all;
  expect((await call("PUT", "/contracts/ada/members/grace", { key, body: {} })).status).toBe(201);
  const stranger = { ...ada, spender: "nobody/notes" };
  const failed = {
    value: true,
    reason: "ERROR",
    errorCode: "INVALID_CONTEXT",
    errorMessage: "Member nobody of ada not found",
  };
  await Web.setContext("page", stranger);
  expect(page.getBooleanDetails("boolean-flag", true)).toMatchObject(failed);
  expect(await backEnd.getBooleanDetails("boolean-flag", true, stranger)).toMatchObject(failed);
  const member = { ...ada, spender: "grace/notes" };
  await Web.setContext("page", member);
  expect(page.getBooleanDetails("boolean-flag", false)).toMatchObject({ value: true, reason: "CACHED" });
  expect(await backEnd.getBooleanDetails("boolean-flag", false, member)).toMatchObject({ value: true });
  expect((await call("DELETE", "/contracts/ada/members/grace", { key })).status).toBe(204);
  await Web.setContext("page", ada);
});

test("a provider that was closed can be used again", async () => {
  const provider = new FaregateWebProvider({ url: backend.url, apiKey: backend.key });
  for (let times = 0; times < 2; times += 1) {
    await Web.setProviderAndWait("again", provider, ada);
    expect(Web.getClient("again").getBooleanValue("boolean-flag", false)).toBe(true);
    await Web.setProviderAndWait("again", NOOP_PROVIDER);
  }
  expect(provider.resolveBooleanEvaluation("boolean-flag", false)).toMatchObject({ value: false, reason: "ERROR" });
});

test("a page that changes to a user without a contract answers INVALID_CONTEXT, and recovers with a known user", async () => {
  await Web.setContext("page", { targetingKey: "nobody" });
  expect(page.providerStatus).toBe("ERROR");
  expect(page.getBooleanDetails("boolean-flag", true)).toMatchObject({
    value: true,
    reason: "ERROR",
    errorCode: "INVALID_CONTEXT",
    errorMessage: expect.stringContaining("nobody"),
  });
  expect(page.getNumberDetails("boolean-flag", 7)).toMatchObject({ value: 7, errorCode: "INVALID_CONTEXT" });
  await Web.setContext("page", ada);
  expect(page.getBooleanDetails("boolean-flag", false)).toMatchObject({ value: true, reason: "CACHED" });
});
