import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { act, useEffect } from "react";
import { expect, test } from "vitest";
import * as react from "../../src/react/react.ts";
import * as server from "../../src/react/server.ts";
import { createTestToken, TestServiceProvider } from "../../src/react/testing.tsx";
import { mount, Shown } from "./harness.tsx";

/* Source: contract clients §1.1, §3.3 test provider, usage helpers. */

const both = (
  <>
    <Shown id="zoom-meetings" />
    <Shown id="zoom-chat" />
  </>
);

test("the test provider shows the features it is given, and others when they change", async () => {
  const page = await mount(
    <TestServiceProvider features={{ "zoom-meetings": true, "zoom-chat": false }}>{both}</TestServiceProvider>,
  );
  expect(page.text()).toBe("ONDEFAULT");
  await page.render(<TestServiceProvider features={{ "zoom-chat": true }}>{both}</TestServiceProvider>);
  expect(page.text()).toBe("ERRORON");
});

test("the test provider loads or fails for ever if so told", async () => {
  const page = await mount(<TestServiceProvider status="loading">{both}</TestServiceProvider>);
  expect(page.text()).toBe("LOADINGLOADING");
  await page.render(<TestServiceProvider status="error">{both}</TestServiceProvider>);
  expect(page.text()).toBe("ERRORERROR");
});

test("setUserId under the test provider brings its features", async () => {
  let done: Promise<void> | undefined;
  function SetUser() {
    const client = react.useServiceClient();
    useEffect(() => {
      done = client.setUserId("ada");
    }, [client]);
    return null;
  }
  const page = await mount(
    <TestServiceProvider features={{ "zoom-chat": true }} status="error">
      {both}
      <SetUser />
    </TestServiceProvider>,
  );
  await act(async () => done);
  expect(page.text()).toBe("ERRORON");
});

test("useFeature says limit, use, error and reason; useUsage what remains", async () => {
  const seen: unknown[] = [];
  function Probe({ id }: { id: string }) {
    seen.push([react.useFeature(id), react.useUsage(id)]);
    return null;
  }
  const error = { code: "EVALUATION_ERROR", message: "no" };
  await mount(
    <TestServiceProvider features={{ "zoom-a": { limit: 10, used: 8 }, "zoom-b": { eval: false, error } }}>
      <Probe id="zoom-a" />
      <Probe id="zoom-b" />
      <Probe id="zoom-c" />
    </TestServiceProvider>,
  );
  const none = { limit: null, used: null, remaining: null, ratio: null, exceeded: false };
  expect(seen).toEqual([
    [
      { status: "on", enabled: true, limit: 10, used: 8, error: null, reason: null },
      { limit: 10, used: 8, remaining: 2, ratio: 0.8, exceeded: false },
    ],
    [{ status: "off", enabled: false, limit: null, used: null, error, reason: null }, none],
    [{ status: "error", enabled: false, limit: null, used: null, error: null, reason: "not-found" }, none],
  ]);
});

test("every hook of the guide can be imported", () => {
  const guide = readFileSync(resolve(import.meta.dirname, "../../src/docs/clients.md"), "utf8");
  const hooks = [...guide.matchAll(/`(use[A-Z]\w+)\(/g)].map(([, name = ""]) => name);
  expect(hooks.length).toBeGreaterThan(5);
  expect(hooks.filter((name) => !(name in react))).toEqual([]);
});

test("the published names are the same objects", () => {
  expect(react.SpaceProvider).toBe(react.ServiceProvider);
  expect(react.useSpaceClient).toBe(react.useServiceClient);
});

test("the server entry reads a token without React", () => {
  const payload = server.parsePricingToken(createTestToken({ features: { "zoom-a": true } }));
  expect(payload.features["zoom-a"]?.eval).toBe(true);
  expect(Object.isFrozen(payload.features)).toBe(true);
});
