import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";

/*
 * Libraries for things that are not in use cost memory and time at each start. Source: loaded scripts of real processes, as
 * containers run them.
 */

const BUILT = new URL("../../dist/server/", import.meta.url).href;
/** Starts of processes on a busy machine. */
const PATIENCE_MS = 120_000;
const RARE = ["openid-client", "oauth4webapi", "nodemailer"];
const OIDC = { OIDC_ISSUER: "http://127.0.0.1:1", OIDC_CLIENT_ID: "faregate" };
const SMTP = { SMTP_URL: "smtp://127.0.0.1:1", MAIL_FROM: "gate@example.com", PUBLIC_URL: "http://localhost" };

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), "faregate-modules-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await database.drop();
});

/** Writes the address of each script that the process has compiled, one a line, when the process exits. */
function recordingInto(file: string): Record<string, string> {
  const record = `
    import { Session } from "node:inspector";
    import { writeFileSync } from "node:fs";
    const scripts = [];
    const session = new Session();
    session.connect();
    session.on("Debugger.scriptParsed", ({ params }) => scripts.push(params.url));
    session.post("Debugger.enable");
    process.on("exit", () => writeFileSync(${JSON.stringify(file)}, scripts.join("\\n")));`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(record)}` };
}

/** Names of the packages that a script is in, or was built from: esbuild writes the path of each source above it. */
function packagesIn(url: string): string[] {
  const sources = url.startsWith(BUILT)
    ? (readFileSync(new URL(url), "utf8").match(/^\/\/ node_modules\/.*$/gm) ?? [])
    : [];
  return [url, ...sources].flatMap((source) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source)?.[1] ?? []);
}

/** Starts a server, lets it work, and returns the names of the packages that it has loaded. */
async function packagesOf(
  start: (environment: Record<string, string>) => Promise<RunningServer>,
  work: (url: string) => Promise<unknown> = async () => undefined,
): Promise<Set<string>> {
  const file = join(folder, crypto.randomUUID());
  const server = await start(recordingInto(file));
  try {
    await work(server.url);
  } finally {
    expect(await server.stop(), server.output()).toBe(0);
  }
  return new Set(readFileSync(file, "utf8").split("\n").flatMap(packagesIn));
}

const rest =
  (more: Record<string, string> = {}) =>
  (environment: Record<string, string>) =>
    startRestServer(REST, database.url, { ...environment, ...more });
const events =
  (more: Record<string, string> = {}) =>
  (environment: Record<string, string>) =>
    startEventServer(database.url, { ...environment, ...more });
const rareOf = (packages: ReadonlySet<string>) => RARE.filter((name) => packages.has(name));
const signIn = async (url: string) => {
  const answer = await fetch(`${url}/api/v1/auth/oidc/start`, { redirect: "manual" });
  expect(answer.status).toBe(302);
};

test(
  "REST loads no client of a provider and no mailer, configured or not, until somebody signs in",
  async () => {
    const packages = await packagesOf(rest());
    expect(packages).toContain("hono");
    expect(rareOf(packages)).toEqual([]);
    expect(rareOf(await packagesOf(rest({ ...OIDC, ...SMTP })))).toEqual([]);
    expect(rareOf(await packagesOf(rest(OIDC), signIn))).toEqual(["openid-client", "oauth4webapi"]);
  },
  PATIENCE_MS,
);

test(
  "the event server loads no mailer until there is a mail to send",
  async () => {
    const packages = await packagesOf(events());
    expect(packages).toContain("hono");
    expect(rareOf(packages)).toEqual([]);
    expect(rareOf(await packagesOf(events(SMTP)))).toEqual([]);
  },
  PATIENCE_MS,
);
