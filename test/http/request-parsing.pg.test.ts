import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import type { Server } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createHttpServer } from "../../src/entries/platform/http-server.ts";
import { createTestApi, type Method, type TestApi } from "../support/api.ts";
import { contractFor, tasker, upload } from "../support/contracting.ts";
import { pricingText } from "../support/pricings.ts";
import { processorMs } from "../support/processor-time.ts";

const MB = 1024 * 1024;
let api: TestApi;
let key: string;
let server: Server;
let port: number;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker({ name: "Listed" }));
  server = createHttpServer(api.app.fetch as Parameters<typeof createHttpServer>[0]);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  // The server survives every request.
  expect(api.logged.filter(({ level }) => level === "error")).toEqual([]);
  await api.close();
});

const TYPE = "content-type";
const JSON_TYPE = { [TYPE]: "application/json" };
const FORM_TYPE = { [TYPE]: "application/x-www-form-urlencoded" };
const put = (body: string | undefined, headers: Record<string, string>) =>
  api.call("PUT", "/services/Nobody", { key, body, headers });
const NOT_FOUND = { status: 404, body: { error: "NOT FOUND: Service with name Nobody" } };

describe("bodies", () => {
  test.each(["GET", "DELETE", "PUT", "POST"] as const)(
    "an empty body with a JSON type is {} for %s",
    async (method) => {
      const path = method === "POST" ? "/services" : "/services/Nobody";
      const answer = await api.call(method, path, { key, body: method === "GET" ? undefined : "", headers: JSON_TYPE });
      expect(answer.status).toBe(method === "POST" ? 400 : 404);
      expect(answer.body).toEqual({
        error: method === "POST" ? "No file or URL provided" : "NOT FOUND: Service with name Nobody",
      });
    },
  );

  test.each([
    ["no content type", {}],
    ["text/plain", { [TYPE]: "text/plain" }],
    ["XML", { [TYPE]: "application/xml" }],
    ["a JSON dialect", { [TYPE]: "application/vnd.api+json" }],
    ["nonsense", { [TYPE]: ";;;" }],
  ])("%s is not looked at: the body is {}", async (_, headers) => {
    const response = await api.app.request("/api/v1/services/Nobody", {
      method: "PUT",
      headers: { "x-api-key": key, ...headers },
      body: new TextEncoder().encode('{"name":7}'),
    });
    expect(response.status).toBe(404);
  });

  test.each(["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"])(
    "%s is read as JSON",
    async (type) => {
      expect(await put('{"name":7}', { [TYPE]: type })).toMatchObject({
        status: 422,
        body: { error: "The name field must be a string" },
      });
      expect(await put('\uFEFF{"name":7}', { [TYPE]: type })).toMatchObject({ status: 422 });
    },
  );

  const MALFORMED = "INVALID DATA: Malformed JSON body";
  test.each(['"text"', "7", "true", "null", "{", '{"a":}', "[1,", "undefined", "{'a':1}", '{"a":1}x', "\u0000"])(
    "%j is malformed: 400 as JSON, before authentication, with CORS and security headers, without a stack",
    async (body) => {
      const answer = await api.call("POST", "/services", {
        body,
        headers: { ...JSON_TYPE, origin: "https://app.example.org" },
      });
      expect({ status: answer.status, body: answer.body }).toEqual({ status: 400, body: { error: MALFORMED } });
      expect(answer.headers.get(TYPE)).toBe("application/json; charset=utf-8");
      expect(answer.headers.get("access-control-allow-origin")).toBe("https://app.example.org");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    },
  );

  test.each([
    ["/services", "application/json"],
    ["/usage", "application/x-ndjson"],
  ])("a compressed body of %s is 400 and says so", async (path, type) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1${path}`, {
      method: "POST",
      headers: { "x-api-key": key, [TYPE]: type, "content-encoding": "gzip" },
      body: new Uint8Array(gzipSync('{"name":"Zip"}')),
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({
      error: "INVALID DATA: The body must not be compressed (Content-Encoding: gzip)",
    });
  });

  test("a body that says that it is not compressed is malformed as any other", async () => {
    const headers = { ...JSON_TYPE, "content-encoding": "identity" };
    expect(await put("{", headers)).toMatchObject({ status: 400, body: { error: MALFORMED } });
  });

  test("a list is a body, and names like __proto__ are data that changes nothing", async () => {
    expect(await api.call("PUT", "/services/Nobody/pricings/1", { key, body: [1] })).toMatchObject({
      status: 422,
      body: { error: "The body must be an object" },
    });
    for (const body of ['{"__proto__":{"name":7}}', '{"constructor":{"prototype":{"polluted":1}}}']) {
      expect(await put(body, JSON_TYPE)).toMatchObject(NOT_FOUND);
    }
    expect(await put("__proto__[polluted]=1&constructor[prototype][polluted]=1", FORM_TYPE)).toMatchObject(NOT_FOUND);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  const HALF = "a\ud83d";
  test.each<[Method, string, object, string]>([
    ["PUT", "/contracts/nobody/overrides/tasker/features/note", { mode: "set", value: HALF, reason: "promo" }, "value"],
    ["PUT", "/contracts/nobody/overrides/tasker/usageLimits/tasks", { mode: "set", value: 1, reason: HALF }, "reason"],
    ["POST", "/contracts/nobody/blocks", { service: "tasker", limit: "tasks", amount: 1, reason: HALF }, "reason"],
    ["PUT", "/contracts/nobody/userContact", { firstName: HALF }, "firstName"],
    ["POST", "/organizations/{org}/webhooks", { url: "https://example.org", description: HALF }, "description"],
    [
      "PUT",
      "/organizations/{org}/gate",
      { rules: [{ rule: "noFeatureLost", features: [HALF] }] },
      "rules.0.features.0",
    ],
  ])("half a character cannot be stored: %s %s", async (method, path, body, field) => {
    const { organizationId } = api.callers;
    const { key } = path.includes("{org}") ? api.callers.owner : api.callers.all;
    const answer = await api.call(method, path.replace("{org}", organizationId), { key, body });
    expect(answer).toMatchObject({
      status: 400,
      body: { error: `INVALID DATA: The ${field} field contains a character that cannot be stored` },
    });
  });

  test("a character that is escaped as two halves can be stored", async () => {
    expect(await put(String.raw`{"name":"\ud83d\ude00"}`, JSON_TYPE)).toMatchObject(NOT_FOUND);
    expect(await put(String.raw`{"name":"\ud83d"}`, JSON_TYPE)).toMatchObject({ status: 400 });
  });

  test.each<[Method, string, number, string | undefined]>([
    ["PUT", "/users/owner", 200, undefined],
    ["PUT", "/users/owner/api-key", 200, undefined],
    ["PUT", "/organizations/{org}", 200, undefined],
    ["PUT", "/organizations/{org}/services/Listed", 200, undefined],
    ["POST", "/users", 422, "Username is required"],
    ["POST", "/organizations", 422, "Organization name is required"],
    ["POST", "/organizations/{org}/members", 422, "Member username is required"],
    ["PUT", "/organizations/{org}/members/manager", 422, "Member role is required"],
    ["POST", "/organizations/{org}/api-keys", 400, "scope field is required"],
    ["POST", "/organizations/{org}/contracts", 422, "The userContact field is required"],
    ["PUT", "/organizations/{org}/contracts/nobody", 422, "The contractedServices field is required"],
    ["PUT", "/contracts/nobody/userContact", 404, "Contract with userId nobody not found"],
    ["PUT", "/contracts/nobody/billingPeriod", 404, "Contract with userId nobody not found"],
    [
      "PUT",
      "/contracts/nobody/usageLevels",
      422,
      "The input must be an object with the structure: Record<string, Record<string, number>>",
    ],
    ["POST", "/organizations/{org}/webhooks", 422, "The url field is required"],
    ["PUT", "/organizations/{org}/gate", 422, "The body: must be an object"],
    ["PUT", "/organizations/{org}/usage-alerts", 422, "The body must be an object"],
    ["POST", "/cache/set", 400, "INVALID DATA: The key field must be a non-empty string"],
    ["POST", "/pricing-tokens/verify", 422, "The token field is required"],
  ])("a list has no fields for %s %s: %i", async (method, path, status, error) => {
    const answer = await api.call<{ error?: string }>(method, path.replace("{org}", api.callers.organizationId), {
      key: path.startsWith("/users/owner") ? api.callers.owner.key : api.callers.platformAdmin.key,
      body: [{ name: 1 }],
    });
    expect({ status: answer.status, error: answer.body.error }).toEqual({ status, error });
    api.callers.owner.key = (answer.body as { apiKey?: string }).apiKey ?? api.callers.owner.key;
  });

  test("a JSON nested without end is refused or ignored, and the server lives", async () => {
    const { status } = await put("[".repeat(1_000_000), JSON_TYPE);
    expect(status).toBe(400);
    const nested = (depth: number) => put(`{"x":${"[".repeat(depth)}${"]".repeat(depth)}}`, JSON_TYPE);
    expect(await nested(900)).toMatchObject(NOT_FOUND);
    expect(await nested(5000)).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The body is nested too deeply" },
    });
  });

  test.each<[string, string, number]>([
    ["a plain key", "name=New+name", 404],
    ["a key with a list of texts", "name=a&name=b", 422],
    ["a key with brackets", "name[]=a", 422],
    ["a nested key", "name[first]=a", 422],
    ["a key nested deeper than any body", `${"x[".repeat(40)}=1`, 404],
    ["broken escapes", "name=%zz%", 404],
    ["nothing but separators", "&&&===", 404],
  ])("a form with %s is read", async (_, body, status) => {
    expect((await put(body, FORM_TYPE)).status).toBe(status);
  });

  test("a form of 10000 fields is read, one of more is refused", async () => {
    const form = (fields: number) => `name=x${"&a=1".repeat(fields - 1)}`;
    expect((await put(form(10_000), FORM_TYPE)).status).toBe(404);
    expect(await put(form(10_001), FORM_TYPE)).toMatchObject({
      status: 413,
      body: { error: "The form has more than 10000 fields" },
    });
  });

  test.each<[string, (values: number) => string]>([
    ["fields", (values) => `{${Array.from({ length: values }, (_, i) => `"f${i}":"a,[{"`).join()}}`],
    ["lists", (values) => `{"x":[${"[1],".repeat((values - 2) / 2 - 1)}[1]]}`],
  ])("a JSON body of 20000 values, all of them %s, is read, and a larger one is refused", async (_, body) => {
    expect((await put(body(20_000), JSON_TYPE)).status).toBe(404);
    expect(await put(body(20_002), JSON_TYPE)).toMatchObject({
      status: 413,
      body: { error: "The body has more than 20000 values" },
    });
  });

  test("a whole contract may come as a form with nested keys", async () => {
    const form = new FormData();
    form.append("pricing", new Blob([pricingText({ name: "Formed" })]), "p.yml");
    await api.call("POST", "/services", { key, body: form });
    const answer = await api.call("POST", "/contracts", {
      key,
      headers: FORM_TYPE,
      body: "userContact[userId]=formed&userContact[username]=f&contractedServices[Formed]=1.0.0&subscriptionPlans[Formed]=FREE&subscriptionAddOns[x]=",
    });
    expect(answer.status).toBeLessThan(500);
    expect(JSON.stringify(answer.body)).not.toContain("userContact");
  });
});

describe("sizes", () => {
  const padded = (bytes: number) => `{"x":"${"x".repeat(bytes - 8)}"}`;

  test("exactly 2 MB are read, one byte more is 413, declared or chunked", async () => {
    expect((await put(padded(2 * MB), JSON_TYPE)).status).toBe(404);
    const TOO_LARGE = { status: 413, body: { error: "The request body is larger than 2 MB" } };
    expect(await put(padded(2 * MB + 1), JSON_TYPE)).toMatchObject(TOO_LARGE);
    expect(await put(`x=${"x".repeat(2 * MB)}`, FORM_TYPE)).toMatchObject(TOO_LARGE);
    const chunk = new TextEncoder().encode("x".repeat(64 * 1024));
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        sent += chunk.length;
        controller.enqueue(chunk);
      },
    });
    const response = await api.app.request("/api/v1/services", {
      method: "POST",
      headers: { ...JSON_TYPE, origin: "https://app.example.org" },
      body: endless,
      duplex: "half",
    } as RequestInit);
    expect(response.status).toBe(413);
    expect(response.headers.get("access-control-allow-origin")).toBe("https://app.example.org");
    expect(sent).toBeLessThan(4 * MB);
  });

  test("a file of exactly 2 MB is read, one byte more is File too large", async () => {
    const text = pricingText({ name: "Two megabytes" });
    const upload = (bytes: number) => {
      const form = new FormData();
      form.append("pricing", new Blob([text, `#${"x".repeat(bytes - text.length - 1)}`]), "p.yml");
      return api.call("POST", "/services", { key, body: form });
    };
    expect((await upload(2 * MB)).status).toBe(201);
    for (const bytes of [2 * MB + 1, 2 * MB + 64 * 1024, 5 * MB]) {
      expect(await upload(bytes)).toMatchObject({ status: 413, body: { error: "File too large" } });
    }
  });
});

describe("multipart", () => {
  const part = (headers: string, content: string) => `--X\r\n${headers}\r\n\r\n${content}\r\n`;
  const DISPOSITION = "Content-Disposition: form-data";
  const FILE = `${DISPOSITION}; name="pricing"; filename="p.yml"`;
  let names = 0;
  const text = () => pricingText({ name: `Multipart ${(names += 1)}` });
  const send = (body: string, type = "multipart/form-data; boundary=X") =>
    api.call("POST", "/services", { key, body, headers: { [TYPE]: type } });

  test.each<[string, () => string]>([
    ["as browsers do", () => `${part(`${FILE}\r\nContent-Type: text/yaml`, text())}--X--\r\n`],
    ["without the last line end", () => `${part(FILE, text())}--X--`],
    ["with text before and after", () => `before\r\n${part(FILE, text())}--X--\r\nafter`],
    ["with headers in another order and case", () => `${part(`content-type: text/yaml\r\n${FILE.toLowerCase()}`, text())}--X--\r\n`], // prettier-ignore
    ["with names without quotes, as .NET", () => `${part(`${DISPOSITION}; name=pricing; filename=p.yml; filename*=utf-8''p.yml`, text())}--X--\r\n`], // prettier-ignore
    ["with filename* alone, as Python", () => `${part(`${DISPOSITION}; name="pricing"; filename*=utf-8''pr%C3%A9cios.yml`, text())}--X--\r\n`], // prettier-ignore
    ["with headers nobody knows", () => `${part(`${FILE}\r\nContent-Length: 5\r\nX-Y: z`, text())}--X--\r\n`],
    ["with a hundred other fields", () => `${Array.from({ length: 100 }, (_, i) => part(`${DISPOSITION}; name="f${i}"`, "v")).join("")}${part(FILE, text())}--X--\r\n`], // prettier-ignore
    ["after a file input left empty", () => `${part(`${DISPOSITION}; name="icon"; filename=""`, "")}${part(FILE, text())}--X--\r\n`], // prettier-ignore
  ])("a file is found %s", async (_, body) => {
    expect(await send(body())).toMatchObject({ status: 201 });
  });

  test("a boundary in quotes is one too", async () => {
    const body = `${part(FILE, text())}--X--\r\n`;
    expect((await send(body, 'multipart/form-data; charset=utf-8; boundary="X"')).status).toBe(201);
  });

  const UNEXPECTED = { status: 400, body: { error: "Unexpected field" } };
  const MALFORMED = { status: 400, body: { error: expect.stringMatching(/^INVALID DATA: Malformed multipart/) } };
  const NOTHING = { status: 400, body: { error: "No file or URL provided" } };
  test.each<[string, () => string, string | undefined, object]>([
    ["a file in another field", () => `${part(FILE.replace("pricing", "file"), text())}--X--`, undefined, UNEXPECTED],
    ["a file in a field without name", () => `${part(FILE.replace('"pricing"', '""'), text())}--X--`, undefined, UNEXPECTED], // prettier-ignore
    ["a file without any field", () => `${part(`${DISPOSITION}; filename="p.yml"`, text())}--X--`, undefined, UNEXPECTED], // prettier-ignore
    ["two files", () => `${part(FILE, text())}${part(FILE, text())}--X--`, undefined, UNEXPECTED],
    ["a file and one in another field", () => `${part(FILE, text())}${part(FILE.replace("pricing", "b"), "x")}--X--`, undefined, UNEXPECTED], // prettier-ignore
    ["a body cut within the file", () => part(FILE, text()).slice(0, -40), undefined, MALFORMED],
    ["a body cut within the headers", () => "--X\r\nContent-Disp", undefined, MALFORMED],
    ["a body cut before its end", () => part(FILE, text()), undefined, MALFORMED],
    ["another boundary", () => `${part(FILE, text())}--X--`, "multipart/form-data; boundary=Y", MALFORMED],
    ["no boundary", () => `${part(FILE, text())}--X--`, "multipart/form-data", MALFORMED],
    ["an endless boundary", () => "-".repeat(100_000), `multipart/form-data; boundary=${"-".repeat(5000)}`, MALFORMED],
    ["endless headers", () => `--X\r\nX: ${"x".repeat(100_000)}\r\n\r\n\r\n--X--`, undefined, MALFORMED],
    ["10 000 fields", () => `${Array.from({ length: 10_000 }, (_, i) => part(`${DISPOSITION}; name="f${i}"`, "v")).join("")}--X--`, undefined, MALFORMED], // prettier-ignore
    ["2 MB of dashes", () => "-".repeat(2 * MB), `multipart/form-data; boundary=${"-".repeat(69)}x`, MALFORMED],
    ["no part", () => "--X--\r\n", undefined, NOTHING],
    ["an empty field", () => `${part(`${DISPOSITION}; name="pricing"`, "")}--X--`, undefined, NOTHING],
    ["a text in another field", () => `${part(`${DISPOSITION}; name="url"`, "https://x")}--X--`, undefined, NOTHING],
    ["a text that is no address", () => `${part(`${DISPOSITION}; name="pricing"`, "no address")}--X--`, undefined, { status: 400, body: { error: "Invalid URL" } }], // prettier-ignore
  ])("%s is refused with little work", async (_, body, type, expected) => {
    const sent = body();
    const spentMs = await processorMs(async () => expect(await send(sent, type)).toMatchObject(expected));
    expect(spentMs).toBeLessThan(2000);
  });

  test("an empty multipart body has no file", async () => {
    expect((await send("")).status).toBe(400);
  });

  test("multipart where no file is expected is a body without fields", async () => {
    const form = new FormData();
    form.append("name", "New");
    expect(await api.call("PUT", "/services/Nobody", { key, body: form })).toMatchObject(NOT_FOUND);
  });
});

describe("origins", () => {
  const CORS = /^(vary|access-control-)/;
  const ORIGIN = "https://app.example.org";
  const corsOf = async (app: TestApi["app"], method: Method, headers: Record<string, string>) => {
    const answer = await app.request("/api/v1/users", { method, headers });
    return { status: answer.status, ...Object.fromEntries([...answer.headers].filter(([name]) => CORS.test(name))) };
  };
  const ACCEPTED = { vary: "Origin", "access-control-allow-credentials": "true" };
  const ALLOWED = { ...ACCEPTED, "access-control-allow-origin": ORIGIN };

  test("without one, and from one that may, every answer says so, a preflight too", async () => {
    const exposed = expect.stringMatching(/^X-Total-Count,.*\bDate\b/) as string;
    expect(await corsOf(api.app, "GET", {})).toEqual({ status: 401, ...ACCEPTED });
    expect(await corsOf(api.app, "OPTIONS", {})).toEqual({ status: 204, ...ACCEPTED });
    expect(await corsOf(api.app, "GET", { origin: ORIGIN })).toEqual({
      status: 401,
      ...ALLOWED,
      "access-control-expose-headers": exposed,
    });
    expect(await corsOf(api.app, "OPTIONS", { origin: ORIGIN, "access-control-request-headers": "x-api-key" })).toEqual(
      {
        status: 204,
        ...ALLOWED,
        vary: "Origin, Access-Control-Request-Headers",
        "access-control-allow-methods": "GET,HEAD,OPTIONS,POST,PUT,DELETE",
        "access-control-allow-headers": "x-api-key",
      },
    );
  });

  test("to one that may not, no answer speaks of origins", async () => {
    const closed = await createTestApi({ http: { allowedOrigins: ["https://other.example"] } });
    expect(await corsOf(closed.app, "GET", { origin: ORIGIN })).toEqual({ status: 401 });
    expect(await corsOf(closed.app, "OPTIONS", { origin: ORIGIN })).toEqual({ status: 204 });
    await closed.close();
  });
});

describe("query parameters", () => {
  test.each([
    "name=a&name=b",
    "name[]=a",
    "name[x]=1",
    "limit=1&limit=2",
    "name%5B%5D=a",
    "name=a&%6eame=b",
    "organizationId=a&organizationId=b",
  ])("%s is refused with 400", async (query) => {
    const answer = await api.call("GET", `/services?${query}`, { key });
    expect(answer).toMatchObject({ status: 400, body: { error: expect.stringMatching(/^INVALID DATA: /) as unknown } });
  });

  test.each(["x=1&x=1&x=1", "x[]=1", "names[]=a", "userId[a]=1"])(
    "%s, which nobody reads, is ignored",
    async (query) => {
      expect((await api.call("GET", `/services?${query}`, { key })).status).toBe(200);
    },
  );

  test.each(["organizationId[]=", "organizationId[x]=", "organizationId=&organizationId="])(
    "%s does not mean every organization",
    async (query) => {
      const at = `${query}${api.callers.organizationId}`;
      const admin = api.callers.platformAdmin.key;
      expect((await api.call("DELETE", `/services?${at}`, { key: admin })).status).toBe(400);
    },
  );

  test.each(["name=%E0%A4%A", "name=%", "%=1", "name=%00", "=", "&&", "name", `name=${"x".repeat(10_000)}`, "name=+"])(
    "%s never makes the server fail",
    async (query) => {
      expect((await api.call("GET", `/services?${query}`, { key })).status).toBeLessThan(500);
    },
  );

  test.each(["/services/%E0%A4%A", "/services/%", "/services/%00", "/services/a%2Fb", "/services/%ff/pricings/%fe"])(
    "the path %s never makes the server fail",
    async (path) => {
      const { status } = await api.call("GET", path, { key });
      expect([400, 404]).toContain(status);
    },
  );
});

describe("over a real connection", () => {
  /** Sends raw bytes, and returns the answer until the server closes or falls silent. */
  function raw(head: string[], body: string | Uint8Array = "", end = true): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      let received = "";
      const timer = setTimeout(() => socket.destroy(), 4000);
      socket.on("data", (chunk) => {
        received += String(chunk);
        if (/\r\n\r\n[^]*\}/.test(received)) socket.end();
      });
      socket.on("close", () => {
        clearTimeout(timer);
        resolve(received);
      });
      socket.on("error", (error: NodeJS.ErrnoException) => {
        if (error.code !== "ECONNRESET" && error.code !== "EPIPE") reject(error);
      });
      socket.write(`${head.join("\r\n")}\r\n\r\n`);
      socket.write(body);
      if (!end) setTimeout(() => socket.destroy(), 100);
    });
  }
  const head = (...headers: string[]) => [
    "POST /api/v1/services HTTP/1.1",
    "Host: localhost",
    `x-api-key: ${key}`,
    ...headers,
  ];

  beforeAll(async () => {
    await upload(api, key, tasker());
    await api.call("POST", "/contracts", { key, body: contractFor("ada") });
  });

  test.each([
    "/contracts/.",
    "/contracts/%2e",
    "/contracts/ada/..",
    "/contracts/ada/%2E.",
    "/contracts/./",
    "/./contracts?x=1",
  ])("a path with dot segments is refused as it was sent, and deletes nothing: %s", async (path) => {
    const answer = await raw([`DELETE /api/v1${path} HTTP/1.1`, "Host: localhost", `x-api-key: ${key}`]);
    expect(answer).toMatch(/^HTTP\/1\.1 400 [^]*"INVALID DATA: The path must not contain \. or \.\. segments"/);
    expect(await api.call("GET", "/contracts/ada", { key })).toMatchObject({ status: 200 });
  });

  test("dots within a segment, and in the query, are ordinary", async () => {
    for (const path of ["/contracts/...", "/contracts/.ada", "/contracts/ada.", "/contracts/ada..b?q=/../"]) {
      const answer = await raw([`GET /api/v1${path} HTTP/1.1`, "Host: localhost", `x-api-key: ${key}`]);
      expect(answer, path).toMatch(/^HTTP\/1\.1 (404|200) /);
    }
  });

  test("a declared 3 MB is refused with 413 before it is sent", async () => {
    const answer = await raw(head("Content-Type: application/json", `Content-Length: ${3 * MB}`));
    expect(answer).toMatch(/^HTTP\/1\.1 413 [^]*"The request body is larger than 2 MB"/);
  });

  test("a chunked 3 MB is refused with 413", async () => {
    const chunk = `100000\r\n${"x".repeat(MB)}\r\n`;
    const answer = await raw(
      head("Content-Type: application/json", "Transfer-Encoding: chunked"),
      `${chunk.repeat(3)}0\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  });

  test("an upload that is broken off leaves nothing and harms nobody", async () => {
    const body = '--X\r\nContent-Disposition: form-data; name="pricing"; filename="p.yml"\r\n\r\nsaasName: Aborted\n';
    await raw(head("Content-Type: multipart/form-data; boundary=X", "Content-Length: 100000"), body, false);
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/services/Aborted`, { headers: { "x-api-key": key } });
    expect(answer.status).toBe(404);
  });

  test("an upload by fetch arrives as in process", async () => {
    const form = new FormData();
    form.append("pricing", new Blob([pricingText({ name: "Over the wire" })]), "p.yml");
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/services`, {
      method: "POST",
      headers: { "x-api-key": key },
      body: form,
    });
    expect(answer.status).toBe(201);
  });
});
