import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract } from "../support/contracting.ts";
import { pricingText, type PricingParts } from "../support/pricings.ts";
import { yamlUpload } from "../support/uploads.ts";
import { numberEvents } from "../../src/db/queries/outbox.ts";

/*
 * SIGKILL hits `faregate apply` after each of its calls: the server has made the change, and the answer never arrives.
 * Started again, it ends with the state, events and audit entries of an undisturbed run.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const FILES = {
  "faregate.yml": `faregate: 1
services:
  Acme:
    public: true
    versions:
      - { file: 0.9.yml }
      - { file: 1.0.yml, state: archived, expectations: tests.yml }
      - { file: 2.0.yml, expectations: tests.yml }
    moves: { fallback: { plan: PRO } }
  After:
    renamedFrom: Before
    versions: [ { file: before.yml } ]
gate: [ { rule: noFeatureLost } ]
webhooks: [ { url: "https://ops.example/hook", enabled: false } ]
`,
  "tests.yml": "expectations:\n  - { plan: PRO, features: { board: true } }\n",
  "0.9.yml": acme({ version: "0.9.0", createdAt: "2025-01-01" }),
  "1.0.yml": acme({}),
  "2.0.yml": acme({ version: "2.0.0", createdAt: "2025-04-01" }),
  "before.yml": pricingText({ name: "Before" }),
};
/** Expectations, create, rename, upload, activate, archive, publish, two of the webhook and the gate. */
const CALLS = 10;

function acme(parts: PricingParts): string {
  return pricingText({ name: "Acme", ...parts });
}

let api: TestApi;
let server: Server;
let folder: string;
/** Called after each change, before its answer is sent. */
let onChange: () => void = () => {};
/** Make the server answer 503, without carrying out a call or after it. */
let isBusyBefore: (request: IncomingMessage) => boolean = () => false;
let isBusyAfter: (request: IncomingMessage) => boolean = () => false;
beforeAll(async () => {
  api = await createTestApi();
  server = createServer((request, response) => {
    if (isBusyBefore(request)) {
      request.resume();
      response.writeHead(503, { "retry-after": "1" });
      response.end('{"error":"busy"}');
      return;
    }
    void forward(request).then(async ({ answer, isChange }) => {
      if (isChange) onChange();
      if (isChange && isBusyAfter(request)) {
        response.writeHead(503, { "retry-after": "1" });
        response.end('{"error":"busy"}');
        return;
      }
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(Buffer.from(await answer.arrayBuffer()));
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  folder = await mkdtemp(join(tmpdir(), "faregate-apply-"));
  for (const [name, text] of Object.entries(FILES)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  await rm(folder, { recursive: true, force: true });
  await api.close();
});

async function forward(request: IncomingMessage): Promise<{ answer: Response; isChange: boolean }> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { method = "GET", url = "/", headers } = request;
  const answer = await api.app.request(`http://localhost${url}`, {
    method,
    headers: Object.entries(headers).map(([name, value]) => [name, String(value)]),
    ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
  });
  return { answer, isChange: answer.ok && method !== "GET" && !url.includes("/impact") };
}

/** Runs the command as a process. Resolves with its exit code; null if it was killed. */
function faregate(command: string, organizationId: string, onStart: (process: ChildProcess) => void = () => {}) {
  return new Promise<{ code: number | null; text: string }>((done) => {
    const child = spawn(process.execPath, ["dist/server/faregate.js", command, folder], {
      cwd: ROOT,
      env: {
        ...process.env,
        FAREGATE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        FAREGATE_API_KEY: api.callers.owner.key,
        FAREGATE_ORGANIZATION: organizationId,
      },
    });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
    child.once("close", (code) => done({ code, text }));
    onStart(child);
  });
}

/** An organization with two versions, of which the folder swaps the states, and a contract on one. */
async function prepared(name: string): Promise<string> {
  const { id, key } = await api.newOrganization(api.callers.owner, name);
  await api.call("POST", "/services", { key, body: yamlUpload(FILES["0.9.yml"]) });
  await api.call("POST", "/services/Acme/pricings", { key, body: yamlUpload(FILES["1.0.yml"]) });
  await api.call("PUT", "/services/Acme/pricings/0.9.0?availability=archived", { key, body: { groups: [] } });
  await contract(api, key, `ada of ${name}`, {
    organizationId: id,
    contractedServices: { Acme: "1.0.0" },
    subscriptionPlans: { Acme: "FREE" },
  });
  return id;
}

/** Everything that a run leaves behind, without ids, times and the order in which services are done. */
async function traceOf(organizationId: string) {
  const { client, db } = api.database.connection;
  await numberEvents(db);
  const rows = (texts: { text: string }[]) => texts.map(({ text }) => text);
  return {
    events: rows(
      await client<{ text: string }[]>`
      select code as text from outbox where organization_id = ${organizationId} order by id`,
    ),
    audit: rows(
      await client<{ text: string }[]>`
      select action as text from audit_log where organization_id = ${organizationId} order by id`,
    ),
    versions: rows(
      await client<{ text: string }[]>`
      select concat_ws(' ', s.name, s.offer_published, p.version, p.availability, p.expectations) as text
      from pricings p join services s on s.id = p.service_id
      where s.organization_id = ${organizationId} order by s.name, p.position`,
    ),
    contracts: rows(
      await client<{ text: string }[]>`
      select concat_ws(' ', p.version, c.plan) as text from contract_services c join pricings p on p.id = c.pricing_id
      join services s on s.id = c.service_id where s.organization_id = ${organizationId}`,
    ),
    webhooks: rows(
      await client<{ text: string }[]>`
      select concat_ws(' ', url, state) as text from webhook_endpoints where organization_id = ${organizationId}`,
    ),
    gate: rows(
      await client<{ text: string }[]>`
      select gate_rules::text as text from organizations where id = ${organizationId}`,
    ),
  };
}

test("an application that is killed after each call ends like an undisturbed one", async () => {
  const [undisturbed, disturbed] = [await prepared("Undisturbed"), await prepared("Disturbed")];
  let calls = 0;
  onChange = () => void (calls += 1);
  const once = await faregate("apply", undisturbed);
  expect(once.code, once.text).toBe(0);
  expect(calls).toBe(CALLS);

  for (let killed = 0; killed < CALLS; killed += 1) {
    const { code, text } = await faregate("apply", disturbed, (child) => {
      onChange = () => void child.kill("SIGKILL");
    });
    expect(code, `after ${killed} calls: ${text}`).toBeNull();
  }
  onChange = () => {
    throw new Error("nothing is left to change");
  };
  const trace = await traceOf(disturbed);
  expect(trace).toEqual(await traceOf(undisturbed));
  const last = await faregate("apply", disturbed);
  expect(last).toEqual({ code: 0, text: "nothing to do\n" });
  expect((await faregate("plan", disturbed)).code).toBe(0);
  expect(await traceOf(disturbed)).toEqual(trace);
}, 240_000);

test.each(["before", "after"])(
  "an application whose calls are answered with 503, %s they are carried out, ends like an undisturbed one",
  async (when) => {
    const [undisturbed, disturbed] = [await prepared(`Quiet ${when}`), await prepared(`Busy ${when}`)];
    onChange = () => {};
    expect((await faregate("apply", undisturbed)).code).toBe(0);
    const refused = new Set<string>();
    const isFirst = ({ method, url }: IncomingMessage): boolean => {
      const call = `${method} ${url}`;
      if (method === "GET" || url?.includes("/impact") === true || refused.has(call)) return false;
      refused.add(call);
      return true;
    };
    if (when === "before") isBusyBefore = isFirst;
    else isBusyAfter = isFirst;
    try {
      const { code, text } = await faregate("apply", disturbed);
      expect(code, text).toBe(0);
    } finally {
      isBusyBefore = isBusyAfter = () => false;
    }
    expect(refused.size).toBeGreaterThan(5);
    expect(await traceOf(disturbed)).toEqual(await traceOf(undisturbed));
    expect(await faregate("apply", disturbed)).toEqual({ code: 0, text: "nothing to do\n" });
  },
  240_000,
);
