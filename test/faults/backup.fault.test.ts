import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { overSocket } from "../../src/db/postgres/address.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { migrate } from "../../src/db/migrate.ts";
import { identifyCaller } from "../../src/operations/access.ts";
import { createResources } from "../../src/operations/resources.ts";
import { folder, launchAndWait, ports, signIn, until, useLaunchers } from "../entries/launcher.ts";
import { createTestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { createDebianCluster, debianPostgres, startDebianPostgres } from "../support/debian-postgres.ts";
import { TEST_SECRETS } from "../support/event-server.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";

/* The recovery drill: back up a serving system, restore it elsewhere, reconcile, and serve from the copy. */

const ROOT = resolve(import.meta.dirname, "../..");

interface Done {
  code: number;
  output: string;
  errors: string;
}

/** Runs `npm run <name> -- <folder>` without npm. */
function command(name: "backup" | "restore", target: string, environment: Record<string, string>): Promise<Done> {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([variable]) => !/^(npm_|VITE|NODE_|PG|DATABASE_URL)/.test(variable)),
  );
  return new Promise((done) => {
    execFile(
      process.execPath,
      [join(ROOT, `dist/server/${name}.js`), target],
      { cwd: tmpdir(), env: { ...inherited, ...environment } },
      (error, output, errors) => done({ code: error === null ? 0 : Number(error.code), output, errors }),
    );
  });
}

describe("the embedded database", () => {
  useLaunchers();

  it("is backed up under load and restored elsewhere with every use that was counted before, and with its keys", async () => {
    const launcher = await launchAndWait({ ADMIN_PASSWORD: "sesame-open" });
    const api = (path: string, key: string, body?: unknown, method = "POST") =>
      fetch(`http://127.0.0.1:${ports.PORT}/api/v1${path}`, {
        method,
        headers: { "x-api-key": key, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    const { apiKey } = (await (await signIn("sesame-open")).json()) as { apiKey: string };
    const made = await api("/organizations", apiKey, { name: "Tasks", owner: "admin" });
    const key = ((await made.json()) as { apiKeys: { key: string }[] }).apiKeys[0]?.key ?? "";
    const form = new FormData();
    form.append("pricing", new Blob([tasker({ maxTasks: 1_000_000 })]), "tasker.yml");
    const headers = { "x-api-key": key };
    await fetch(`http://127.0.0.1:${ports.PORT}/api/v1/services`, { method: "POST", headers, body: form });
    const subscription = {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    };
    await api("/contracts", key, { userContact: { userId: "ada", username: "ada" }, ...subscription });

    let counted = 0;
    const stopping = new AbortController();
    const load = Array.from({ length: 8 }, async () => {
      while (!stopping.signal.aborted) {
        const answer = await api("/features/ada/tasker-board", key, { "tasker-maxTasks": 1 });
        if (answer.status === 200) counted += 1;
      }
    });
    await until(
      () => counted >= 200,
      () => `${counted} were counted`,
    );
    const backup = join(folder, "backup");
    const before = counted;
    const backedUp = await command("backup", backup, { DATA_DIR: join(folder, "data") });
    const after = counted;
    expect(backedUp).toMatchObject({ code: 0, errors: "" });
    expect(backedUp.output).toMatch(/^Backed up database and secrets to .* MB\)/);
    expect(readdirSync(join(backup, "postgres")).filter((name) => name.startsWith(".s."))).toEqual([]);
    expect(after).toBeGreaterThan(before);
    const again = await command("backup", backup, { DATA_DIR: join(folder, "data") });
    expect(again).toMatchObject({ code: 2, errors: expect.stringContaining("is not empty") });
    stopping.abort();
    await Promise.all(load);

    const elsewhere = join(folder, "elsewhere");
    const restored = await command("restore", backup, { DATA_DIR: elsewhere });
    expect(restored).toMatchObject({ code: 0, errors: "" });
    expect(restored.output).toMatch(/^Restored \d+ balances with \d+ movements in [\d.]+ s: all agree\.\n$/);
    const over = await command("restore", backup, { DATA_DIR: elsewhere });
    expect(over).toMatchObject({ code: 2, errors: expect.stringContaining("nothing is written over") });

    launcher.process.kill("SIGTERM");
    expect(await launcher.exit).toBe(0);
    const copy = await launchAndWait({ DATA_DIR: elsewhere });
    const shown = (await (await api("/contracts/ada", key, undefined, "GET")).json()) as {
      usageLevels: { tasker: { maxTasks: { consumed: number } } };
    };
    const { consumed } = shown.usageLevels.tasker.maxTasks;
    expect(consumed).toBeGreaterThanOrEqual(before);
    // Eight calls were in flight when the last count before was taken, and eight when the backup ended.
    expect(consumed).toBeLessThanOrEqual(after + 16);
    expect((await api("/features/ada/tasker-board", key, { "tasker-maxTasks": 1 })).status).toBe(200);
    copy.process.kill("SIGTERM");
    expect(await copy.exit).toBe(0);
  });

  it("is backed up while nothing runs, and what is no backup is refused", async () => {
    const launcher = await launchAndWait({ ADMIN_PASSWORD: "sesame-open" });
    launcher.process.kill("SIGTERM");
    await launcher.exit;
    const backup = join(folder, "backup");
    expect((await command("backup", backup, { DATA_DIR: join(folder, "data") })).code).toBe(0);
    expect((await command("restore", backup, { DATA_DIR: join(folder, "new") })).code).toBe(0);
    const empty = await command("restore", join(folder, "data", "postgres"), { DATA_DIR: join(folder, "other") });
    expect(empty).toMatchObject({ code: 2, errors: expect.stringContaining("it is no backup") });
    expect(existsSync(join(folder, "other", "postgres"))).toBe(false);
  });
});

describe("a database of the operator's own", () => {
  const bin = debianPostgres();
  const cluster = mkdtempSync(join(tmpdir(), "faregate-debian-"));
  let server: Awaited<ReturnType<typeof startDebianPostgres>>;
  let url: string;

  beforeAll(async () => {
    createDebianCluster(join(cluster, "data"), "a/pass:word?");
    server = await startDebianPostgres(join(cluster, "data"), "a/pass:word?", { socketFolder: join(cluster, "data") });
    url = server.url;
  });
  afterAll(async () => {
    await server.stop();
    rmSync(cluster, { recursive: true, force: true });
  });

  it("is dumped while it serves and restored into an empty one, whose keys are those of the same secrets", async () => {
    await onServer(url, "create database live_test");
    await onServer(url, "create database copy_test");
    await migrate(withDatabase(url, "live_test"), MIGRATIONS);
    const connection = connect(withDatabase(url, "live_test"));
    const api = await createTestApi({
      database: { url: withDatabase(url, "live_test"), connection, drop: () => connection.close(0) },
    });
    const { key } = api.callers.all;
    await upload(api, key, tasker());
    await contract(api, key, "ada");
    await api.call("POST", "/features/ada/tasker-board", { key, body: { "tasker-maxTasks": 3 } });
    const backup = join(cluster, "backup");
    const given = { ...TEST_SECRETS, DATABASE_URL: withDatabase(url, "live_test") };
    const dumped = await command("backup", backup, given);
    expect(dumped).toMatchObject({ code: 0, errors: "" });
    // The embedded database's processes use such an address, and hosts give them out.
    const local = { ...given, DATABASE_URL: overSocket(given.DATABASE_URL, join(cluster, "data")) };
    expect(await command("backup", join(cluster, "local"), local)).toMatchObject({ code: 0, errors: "" });
    const copy = { ...TEST_SECRETS, DATABASE_URL: withDatabase(url, "copy_test") };
    const restored = await command("restore", backup, copy);
    expect(restored).toMatchObject({ code: 0, errors: "" });
    expect(restored.output).toMatch(/^Restored 2 balances with 1 movements in .*: all agree\.\n$/);
    const other = connect(copy.DATABASE_URL);
    try {
      const resources = createResources(other, api.resources);
      expect(await identifyCaller(resources, key)).toMatchObject({ kind: "key", scope: "ALL" });
    } finally {
      await other.close(0);
      await api.close();
    }
    const over = await command("restore", backup, copy);
    expect(over).toMatchObject({ code: 2, errors: expect.stringContaining("nothing is written over") });
  });

  it("without pg_dump says what to install, and never shows the password", async () => {
    const nothing = mkdtempSync(join(tmpdir(), "faregate-path-"));
    const done = await command("backup", join(cluster, "none"), {
      ...TEST_SECRETS,
      DATABASE_URL: url,
      PATH: nothing,
    });
    rmSync(nothing, { recursive: true });
    expect(done.code).toBe(2);
    expect(done.errors).toMatch(
      /^There is no pg_dump here, and the server is PostgreSQL \d+: install postgresql-client-\d+/,
    );
    expect(done.errors).not.toContain("pass:word");
    expect(dirname(bin)).toContain("postgresql");
  });
});
