import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDownload } from "../../src/entries/platform/download.ts";
import { overTcp } from "../../src/db/postgres/address.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { REST, startRestServer } from "../support/event-server.ts";
import { pricingText } from "../support/pricings.ts";

/* Rows of the audit that no other test covers; see holes.ts. */

const ALLOWED = "https://console.example";
let api: TestApi;

beforeAll(async () => {
  api = await createTestApi({
    http: { allowedOrigins: [ALLOWED] },
    resources: { download: createDownload({ allowedHosts: ["127.0.0.1"] }) },
  });
});
afterAll(() => api.close());

describe("A12: a path in place of an address", () => {
  const folder = mkdtempSync(join(tmpdir(), "faregate-canary-"));
  const file = join(folder, "canary.yml");
  writeFileSync(file, pricingText({ name: "Canary" }));
  afterAll(() => rmSync(folder, { recursive: true }));
  const beside = relative(process.cwd(), file);

  it.each([
    file,
    beside,
    `public/../${beside}`,
    `public/static/../../${beside}`,
    `./${beside}`,
    `file://${file}`,
    `file:${file}`,
    `FILE://localhost${file}`,
    `\\\\localhost${file.replaceAll("/", "\\")}`,
    `data:application/yaml,${encodeURIComponent(pricingText({ name: "Canary" }))}`,
    "public/../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
  ])("%s reads nothing from the disk, in whatever form it is sent", async (pricing) => {
    const form = new FormData();
    form.append("pricing", pricing);
    const { key } = api.callers.all;
    for (const body of [{ pricing }, form]) {
      const refused = await api.call("POST", "/services", { key, body });
      expect(refused.status).toBeGreaterThanOrEqual(400);
      expect(refused.status).toBeLessThan(500);
      expect(JSON.stringify(refused.body)).not.toMatch(/root:|ENOENT|EACCES|Canary/);
    }
    expect((await api.call("GET", "/services/Canary", { key })).status).toBe(404);
  });
});

describe("B13: the figures of everybody", () => {
  it("are two numbers a day and name no organization, service, user or key", async () => {
    const other = await api.newOrganization(await api.newUser(), "Nobody's business");
    await upload(api, other.key, tasker({ name: "Secretive" }));
    await contract(api, other.key, "mallory", {
      contractedServices: { secretive: "1.0.0" },
      subscriptionPlans: { secretive: "PRO" },
    });
    await api.call("POST", "/features/mallory", { key: other.key });
    await api.resources.callCounter.flush();
    for (const series of ["api-calls", "evaluations"]) {
      const { body } = await api.call("GET", `/analytics/${series}`, { key: api.callers.evaluation.key });
      expect(body).toEqual({ labels: expect.any(Array), data: expect.any(Array) });
      const { labels, data } = body as { labels: string[]; data: number[] };
      expect(labels.every((label) => /^[A-Z][a-z]+day$/.test(label))).toBe(true);
      expect(data).toHaveLength(7);
      expect(data.every(Number.isInteger)).toBe(true);
    }
    const columns = await api.database.connection.client<{ name: string }[]>`
      select column_name as name from information_schema.columns where table_name = 'analytics_days' order by 1`;
    expect(columns.map(({ name }) => name)).toEqual(["api_calls", "day", "evaluations"]);
  });
});

describe("G7: a body from nobody knows whom", () => {
  const MOST = 2_000_000;
  it.each([
    ["nested lists", "[".repeat(MOST), 400],
    ["nested objects", '{"a":'.repeat(MOST / 5), 400],
    ["one long number", `{"a":${"9".repeat(MOST - 10)}}`, 401],
    ["many names", `{${Array.from({ length: MOST / 12 }, (_, i) => `"${i.toString(36)}":1`).join(",")}}`, 413],
    ["the same name", `{${Array.from({ length: MOST / 6 }, () => '"a":1').join(",")}}`, 413],
    ["a form of many fields", "a=1&".repeat(MOST / 4), 413],
  ])("of %s costs little work, is refused, and leaves nothing", async (_, body, status) => {
    const headers = {
      "content-type": body.startsWith("a=") ? "application/x-www-form-urlencoded" : "application/json",
    };
    const memory = process.memoryUsage().rss;
    const before = process.cpuUsage();
    const refused = await api.call("POST", "/contracts", { body, headers });
    const known = await api.call("POST", "/contracts", { body, headers, key: "usr_nobody" });
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(2000);
    expect([refused.status, known.status]).toEqual([status, status]);
    expect(process.memoryUsage().rss - memory).toBeLessThan(300e6);
  });
});

describe("G8: other people's pages", () => {
  it.each(["https://evil.example", "null", `${ALLOWED}.evil.example`, "https://console.example:444"])(
    "at %s are told nothing, with a preflight and without",
    async (origin) => {
      const headers = { origin, "access-control-request-headers": "x-api-key" };
      for (const method of ["GET", "OPTIONS"] as const) {
        const answer = await api.call(method, "/services", { key: api.callers.all.key, headers });
        expect(answer.headers.get("access-control-allow-origin")).toBeNull();
        expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
      }
    },
  );

  it("at an allowed address are answered by name, never by *", async () => {
    for (const method of ["GET", "OPTIONS"] as const) {
      const answer = await api.call(method, "/services", { key: api.callers.all.key, headers: { origin: ALLOWED } });
      expect(answer.headers.get("access-control-allow-origin")).toBe(ALLOWED);
      expect(answer.headers.get("vary")).toContain("Origin");
    }
  });

  it("have nothing that a browser sends by itself: no answer sets a cookie, and none lets anybody in", async () => {
    const { username } = await api.newUser("cookie-monster");
    const body = { username, password: "password" };
    const signedIn = await api.call<{ apiKey: string }>("POST", "/users/authenticate", { body });
    expect(signedIn.headers.get("set-cookie")).toBeNull();
    const key = signedIn.body.apiKey;
    for (const headers of [
      { cookie: `x-api-key=${key}; apiKey=${key}` },
      { authorization: `Basic ${btoa(`${username}:password`)}` },
    ]) {
      expect((await api.call("GET", "/organizations", { headers })).status).toBe(401);
    }
  });
});

describe("H4: what a process needs", () => {
  /** Remote ends of a process's open TCP connections, as address:port in hexadecimal. */
  function peersOf(pid: number): string[] {
    const inodes = new Set(
      readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
        try {
          return /socket:\[(\d+)\]/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
        } catch {
          return [];
        }
      }),
    );
    return ["tcp", "tcp6"].flatMap((table) =>
      readFileSync(`/proc/${pid}/net/${table}`, "utf8")
        .split("\n")
        .slice(1)
        .map((line) => line.trim().split(/\s+/))
        .filter(([, , , state, , , , , , inode]) => state === "01" && inodes.has(inode ?? ""))
        .map(([, local, remote]) => `${local?.split(":")[1]}>${remote?.split(":")[1]}`),
    );
  }

  it("is Postgres: a process that serves is connected to its callers and to nothing else", async () => {
    const rest = await startRestServer(REST, overTcp(api.database.url));
    try {
      expect((await fetch(`${rest.url}/api/v1/healthcheck`)).status).toBe(200);
      const hex = (url: string) => Number(new URL(url).port).toString(16).toUpperCase().padStart(4, "0");
      const strangers = peersOf(rest.process.pid ?? 0).filter(
        (peer) => !peer.startsWith(`${hex(rest.url)}>`) && !peer.endsWith(`>${hex(api.database.url)}`),
      );
      expect(peersOf(rest.process.pid ?? 0).some((peer) => peer.endsWith(`>${hex(api.database.url)}`))).toBe(true);
      expect(strangers).toEqual([]);
    } finally {
      await rest.stop();
    }
  });
});
