import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import {
  type EvaluationDetails,
  type FlagValue,
  OpenFeature as Server,
  type Provider as ServerProvider,
} from "@openfeature/server-sdk";
import { OpenFeature as Web, type Provider as WebProvider, ProviderEvents } from "@openfeature/web-sdk";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { FaregateLocalProvider } from "../../src/openfeature/local.ts";
import { FaregateProvider } from "../../src/openfeature/server.ts";
import { FaregateWebProvider } from "../../src/openfeature/web.ts";
import { freePort } from "../support/event-server.ts";
import { type Backend, startBackend } from "./backend.ts";

/*
 * Runs OpenFeature's provider requirements (specification §2 and appendix F) against the real server process. Subjects
 * are our three providers and the unmodified generic OFREP ones, each behind its SDK. Omitted, because Faregate has no
 * such flags: text, number and structure values, and disabled flags.
 */

const soon = { timeout: 15_000 };
let backend: Backend;
beforeAll(async () => {
  backend = await startBackend();
  await backend.contract("ada");
  await backend.use("ada", 4);
});
afterAll(async () => {
  await Promise.all([Server.close(), Web.close()]);
  await backend.close();
});

/** A provider behind its SDK. `evaluate` picks the SDK's method by the type of the default. */
interface Subject {
  name: string;
  evaluate(key: string, defaultValue: FlagValue, domain?: string): Promise<EvaluationDetails<FlagValue>>;
  /** Registers the provider for this URL, key and user; rejects like the SDK. */
  register(domain: string, options: { url: string; key: string; userId?: string }): Promise<void>;
  status(domain: string): string;
  metadata(domain: string): string | undefined;
}

function onServer(name: string, make: (options: { url: string; key: string }) => ServerProvider): Subject {
  const users = new Map<string, string | undefined>();
  return {
    name,
    register: async (domain, options) => {
      users.set(domain, options.userId);
      await Server.setProviderAndWait(domain, make(options));
    },
    evaluate: async (key, defaultValue, domain = name) => {
      const client = Server.getClient(domain);
      const userId = users.get(domain);
      const context = userId === undefined ? {} : { targetingKey: userId };
      if (typeof defaultValue === "boolean") return client.getBooleanDetails(key, defaultValue, context);
      if (typeof defaultValue === "string") return client.getStringDetails(key, defaultValue, context);
      if (typeof defaultValue === "number") return client.getNumberDetails(key, defaultValue, context);
      return client.getObjectDetails(key, defaultValue, context);
    },
    status: (domain) => Server.getClient(domain).providerStatus,
    metadata: (domain) => Server.getProviderMetadata(domain).name,
  };
}

function onWeb(name: string, make: (options: { url: string; key: string }) => WebProvider): Subject {
  return {
    name,
    register: async (domain, options) => {
      const context = options.userId === undefined ? {} : { targetingKey: options.userId };
      await Web.setProviderAndWait(domain, make(options), context);
    },
    evaluate: async (key, defaultValue, domain = name) => {
      const client = Web.getClient(domain);
      if (typeof defaultValue === "boolean") return client.getBooleanDetails(key, defaultValue);
      if (typeof defaultValue === "string") return client.getStringDetails(key, defaultValue);
      if (typeof defaultValue === "number") return client.getNumberDetails(key, defaultValue);
      return client.getObjectDetails(key, defaultValue);
    },
    status: (domain) => Web.getClient(domain).providerStatus,
    metadata: (domain) => Web.getProviderMetadata(domain).name,
  };
}

/** The package's types lack exactOptionalPropertyTypes and declare `hooks` as possibly undefined. */
const typed = (provider: OFREPWebProvider) => provider as WebProvider;

const ours = onServer("faregate/openfeature/server", ({ url, key }) => new FaregateProvider({ url, apiKey: key }));
const oursLocal = onServer(
  "faregate/openfeature/local",
  ({ url, key }) => new FaregateLocalProvider({ url, apiKey: key, retries: 0 }),
);
const oursWeb = onWeb("faregate/openfeature/web", ({ url, key }) => new FaregateWebProvider({ url, apiKey: key }));
const generic = onServer(
  "@openfeature/ofrep-provider",
  ({ url, key }) => new OFREPProvider({ baseUrl: url, headers: [["Authorization", `Bearer ${key}`]] }),
);
const genericWeb = onWeb("@openfeature/ofrep-web-provider", ({ url, key }) =>
  typed(new OFREPWebProvider({ baseUrl: url, headers: [["x-api-key", key]], cacheMode: "disabled" })),
);

describe.each([ours, oursLocal, oursWeb, generic, genericWeb])("$name", (subject) => {
  const { name, evaluate, register, status, metadata } = subject;
  const domain = (purpose: string) => `${name}: ${purpose}`;
  const reason = subject === oursWeb ? "CACHED" : "TARGETING_MATCH";

  test("becomes ready and returns its name", async () => {
    await register(name, { url: backend.url, key: backend.key, userId: "ada" });
    expect(status(name)).toBe("READY");
    expect(metadata(name)).toMatch(/\w/);
  });

  test.each([
    ["boolean-flag", false, true, "on"],
    ["boolean-zero-flag", true, false, "off"],
  ] as const)(
    "resolves %s, whose default would be %s, to %s with variant and reason",
    async (key, fallback, value, variant) => {
      const details = await evaluate(key, fallback);
      expect(details).toMatchObject({ flagKey: key, value, variant, reason });
      expect(details.errorCode).toBeUndefined();
      expect(details.errorMessage).toBeFalsy();
    },
  );

  test("returns limit, usage and remainder as flat metadata", async () => {
    const { value, flagMetadata } = await evaluate("boolean-limited-flag", false);
    expect(value).toBe(true);
    expect(flagMetadata).toMatchObject({ limit: 10, used: 4, remaining: 6 });
    for (const entry of Object.values(flagMetadata)) expect(typeof entry).toMatch(/^(string|number|boolean)$/);
  });

  test.each(["fallback", 1, 0.1, { a: 1 }])(
    "resolves boolean-flag requested as %j to the default with TYPE_MISMATCH",
    async (fallback) => {
      expect(await evaluate("boolean-flag", fallback)).toMatchObject({
        value: fallback,
        reason: "ERROR",
        errorCode: "TYPE_MISMATCH",
      });
    },
  );

  test.each([true, "fallback", 1, { a: 1 }])(
    "resolves missing-flag requested as %j to the default with FLAG_NOT_FOUND",
    async (fallback) => {
      expect(await evaluate("missing-flag", fallback)).toMatchObject({
        value: fallback,
        reason: "ERROR",
        errorCode: "FLAG_NOT_FOUND",
      });
    },
  );

  test.each([true, "fallback"])("resolves a broken flag requested as %j to the default", async (fallback) => {
    expect(await evaluate("boolean-broken-flag", fallback)).toMatchObject({
      value: fallback,
      reason: "ERROR",
      errorCode: "GENERAL",
    });
  });

  test("never counts usage", async () => {
    for (let times = 0; times < 3; times += 1) await evaluate("boolean-limited-flag", false);
    expect((await evaluate("boolean-limited-flag", false)).flagMetadata["used"]).toBe(4);
  });

  test("returns the default and throws nothing when the server is unreachable", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const at = domain("unreachable");
    const registered = register(at, { url, key: backend.key, userId: "ada" });
    // The generic server provider has no initialization that could fail.
    if (subject === generic) await registered;
    else {
      await expect(registered).rejects.toThrow(/could not be reached|request failed/);
      expect(status(at)).toBe("ERROR");
    }
    expect(await evaluate("boolean-flag", false, at)).toMatchObject({ value: false, reason: "ERROR" });
  });

  test("returns the default with a wrong key, and is FATAL if it has an initialization", async () => {
    const at = domain("wrong key");
    const registered = register(at, { url: backend.url, key: "org_wrong", userId: "ada" });
    if (subject === generic) await registered;
    else {
      await expect(registered).rejects.toThrow(/Invalid Organization API Key|Initialization failed/);
      expect(status(at)).toBe("FATAL");
    }
    expect(await evaluate("boolean-flag", false, at)).toMatchObject({ value: false, reason: "ERROR" });
  });
});

test("faregate/openfeature/web resolves a number to the flag's limit", async () => {
  expect(await oursWeb.evaluate("boolean-limited-flag", 1)).toMatchObject({ value: 10, reason: "CACHED" });
});

describe.each([ours, oursLocal, generic])("$name, for one request at a time,", ({ name, register, evaluate }) => {
  test.each([
    ["without targetingKey", undefined, "TARGETING_KEY_MISSING"],
    ["with an empty targetingKey", "", "TARGETING_KEY_MISSING"],
    ["for a user without a contract", "nobody", "INVALID_CONTEXT"],
  ])("%s answers %s: %s", async (purpose, userId, errorCode) => {
    const at = `${name}: ${purpose}`;
    await register(at, { url: backend.url, key: backend.key, ...(userId === undefined ? {} : { userId }) });
    const details = await evaluate("boolean-flag", false, at);
    expect(details).toMatchObject({ value: false, reason: "ERROR", errorCode });
    expect(details.errorMessage).toMatch(/targetingKey|Contract with userId nobody not found/);
  });
});

describe.each([oursWeb, genericWeb])("$name, for one user at a time,", ({ name, register, evaluate, status }) => {
  test.each([
    ["without targetingKey", undefined],
    ["for a user without a contract", "nobody"],
  ])("%s is in error, and well again with a user who has one", async (purpose, userId) => {
    const at = `${name}: ${purpose}`;
    const options = { url: backend.url, key: backend.key, ...(userId === undefined ? {} : { userId }) };
    await expect(register(at, options)).rejects.toThrow(/targetingKey|Contract with userId nobody|status: 400/);
    expect(status(at)).toBe("ERROR");
    expect(await evaluate("boolean-flag", false, at)).toMatchObject({ value: false, reason: "ERROR" });
    await Web.setContext(at, { targetingKey: "ada" });
    expect(status(at)).toBe("READY");
    expect((await evaluate("boolean-flag", false, at)).value).toBe(true);
  });
});

test("@openfeature/ofrep-web-provider polls with the ETag: 304 as long as nothing changes, then the changed flags", async () => {
  const statuses: number[] = [];
  const counted: typeof fetch = async (...request) => {
    const answer = await fetch(...request);
    statuses.push(answer.status);
    return answer;
  };
  const changed: (string[] | undefined)[] = [];
  await backend.contract("poll");
  const provider = new OFREPWebProvider({
    baseUrl: backend.url,
    headers: [["Authorization", `Bearer ${backend.key}`]],
    fetchImplementation: counted,
    pollInterval: 50,
    cacheMode: "disabled",
  });
  await Web.setProviderAndWait("polling", typed(provider), { targetingKey: "poll" });
  const client = Web.getClient("polling");
  client.addHandler(ProviderEvents.ConfigurationChanged, (details) => changed.push(details?.flagsChanged));
  await vi.waitFor(() => expect(statuses.slice(0, 4)).toEqual([200, 304, 304, 304]), soon);
  expect(changed).toEqual([]);
  await backend.use("poll", 10);
  await vi.waitFor(() => expect(changed).toEqual([["boolean-limited-flag"]]), soon);
  expect(client.getBooleanDetails("boolean-limited-flag", true)).toMatchObject({
    value: false,
    flagMetadata: { remaining: 0, reason: "LIMIT_REACHED" },
  });
  await vi.waitFor(() => expect(statuses.at(-1)).toBe(304), soon);
  expect(statuses.filter((status) => status === 200)).toHaveLength(2);
});
