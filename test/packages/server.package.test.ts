import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { io } from "socket.io-client";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { freePort, killOn, processesOn } from "../entries/launcher.ts";
import { environmentOf, execute, type PackageRuntime, type Started, startProgram } from "./programs.ts";

/* `npx faregate-server` from its tarball, in empty folders, with what the npm registry resolves. */

const ROOT = resolve(import.meta.dirname, "../..");
const TASKER = readFileSync(join(ROOT, "src/samples/tasker.yml"));

const TRIED: readonly {
  runtime: PackageRuntime;
  install: string[];
  command: string[];
  variables?: Record<string, string>;
}[] = [
  {
    runtime: "Node 20",
    install: ["npm", "install", "--no-audit", "--no-fund"],
    command: ["npx", "--no", "faregate-server"],
  },
  // Nothing is installed before: npx does it.
  {
    runtime: "Node 24",
    install: [],
    command: ["npx", "--yes", "--package", inject("tarballs").server, "--", "faregate-server"],
  },
  {
    runtime: "Bun",
    install: ["bun", "add"],
    command: ["bun", "--bun", "run", "faregate-server"],
    variables: { WORKERS: "2" },
  },
];

describe.each(TRIED)(
  "the server package on $runtime, in an empty folder",
  ({ runtime, install, command, variables }) => {
    let folder: string;
    let env: Record<string, string>;
    let server: Started;
    let api: (method: string, path: string, key?: string, body?: object | FormData) => Promise<unknown>;
    let url: string;
    let key = "";

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), "faregate-server-"));
      env = { ...(await environmentOf(runtime)), PORT: await freePort(), EVENTS_PORT: await freePort(), ...variables };
      url = `http://localhost:${env["PORT"]}`;
      if (install.length > 0) {
        writeFileSync(join(folder, "package.json"), "{}");
        await execute([...install, inject("tarballs").server], { cwd: folder, env });
      }
      server = startProgram(command, { cwd: folder, env });
      api = async (method, path, caller, body) => {
        const headers = new Headers(caller === undefined ? {} : { "x-api-key": caller });
        const request: RequestInit = { method, headers };
        if (body !== undefined) request.body = body instanceof FormData ? body : JSON.stringify(body);
        if (typeof request.body === "string") headers.set("content-type", "application/json");
        const answer = await fetch(`${url}/api/v1${path}`, request);
        if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
        return answer.json();
      };
    }, 120_000);
    afterAll(async () => {
      await server.stop();
      killOn(folder);
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    });

    it("starts its own database, migrates it and prints the password, with which one can sign in", async () => {
      const [, password = ""] = await server.says(/as admin with the password (\w+)/);
      const admin = (await api("POST", "/users/authenticate", undefined, { username: "admin", password })) as {
        apiKey: string;
      };
      const organization = (await api("POST", "/organizations", admin.apiKey, {
        name: "Tasker Inc.",
        owner: "admin",
      })) as {
        id: string;
      };
      const keys = (await api("POST", `/organizations/${organization.id}/api-keys`, admin.apiKey, {
        scope: "ALL",
      })) as {
        apiKeys: { key: string }[];
      };
      key = keys.apiKeys.at(-1)?.key ?? "";
      expect(key).toMatch(/^org_/);
    }, 90_000);

    it("serves the console, the documentation and the sign-in page's script", async () => {
      const page = await (await fetch(`${url}/console/`, { headers: { accept: "text/html" } })).text();
      const [, script = ""] = /<script[^>]* src="([^"]+)"/.exec(page) ?? [];
      expect((await fetch(new URL(script, `${url}/console/`))).headers.get("content-type")).toMatch(/javascript/);
      expect((await fetch(`${url}/api/v1/docs/swagger-ui.css`)).status).toBe(200);
    });

    it("counts a consumption, and its event server announces a pricing", async () => {
      const socket = io(`http://localhost:${env["EVENTS_PORT"]}/pricings`, {
        path: "/events",
        transports: ["websocket"],
      });
      try {
        await new Promise<void>((connected) => void socket.once("connect", connected));
        const announced = new Promise((resolve) => void socket.once("message", resolve));
        const form = new FormData();
        form.append("pricing", new Blob([TASKER]), "tasker.yml");
        await api("POST", "/services", key, form);
        expect(await announced).toMatchObject({ code: "PRICING_CREATED", details: { serviceName: "Tasker" } });
      } finally {
        socket.close();
      }
      await api("POST", "/contracts", key, {
        userContact: { userId: "ada", username: "ada" },
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      });
      const answer = await api("POST", "/features/ada/tasker-board", key, { "tasker-maxTasks": 3 });
      expect(answer).toMatchObject({ eval: true, used: { "tasker-maxTasks": 3 } });
    });

    it("its commands check and back up the running system, and restore it elsewhere", async () => {
      const doctor = await execute([...command, "doctor"], { cwd: folder, env });
      expect(doctor).toMatch(/driver +The database driver has its repairs/);
      expect(doctor).toMatch(/: 0 do not work/);
      expect(await execute([...command, "backup", "copy"], { cwd: folder, env })).toMatch(
        /^Backed up database and secrets/,
      );
      const elsewhere = { ...env, DATA_DIR: join(folder, "elsewhere") };
      expect(await execute([...command, "restore", "copy"], { cwd: folder, env: elsewhere })).toMatch(
        /^Restored 1 balances with 1 movements .*all agree/,
      );
      expect(await execute([...command, "check-ledger"], { cwd: folder, env })).toBe(
        "1 balances, 1 movements: all agree.\n",
      );
      expect(await execute([...command, "migrate"], { cwd: folder, env })).toMatch(/^The schema is up to date/);
    }, 120_000);

    it("stops with everything that it started, and continues with the same data", async () => {
      await server.stop();
      await expect.poll(() => processesOn(join(folder, ".data"))).toEqual([]);
      server = startProgram(command, { cwd: folder, env });
      await server.says(/Faregate is running/);
      expect(server.output()).not.toContain("with the password");
      expect(await api("POST", "/features/ada/tasker-board", key)).toMatchObject({ used: { "tasker-maxTasks": 3 } });
    }, 90_000);
  },
);

describe("what the server package contains", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "faregate-server-"));
    execFileSync("tar", ["-xzf", inject("tarballs").server, "-C", folder]);
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const inPackage = (path: string) => join(folder, "package", path);

  it("is built: no sources, no tsx, and only what it loads at run time as dependencies", () => {
    const { dependencies, scripts } = JSON.parse(readFileSync(inPackage("package.json"), "utf8"));
    expect(Object.keys(dependencies)).toEqual(["socket.io", "tinypool"]);
    expect(scripts).toBeUndefined();
    expect(readdirSync(inPackage("src/db"))).toEqual(["migrations"]);
    expect(readdirSync(inPackage("src"))).toEqual(["db"]);
    expect(existsSync(inPackage("dist/console/index.html.gz"))).toBe(true);
  });

  it("pins what it installs to the versions that are tested here", () => {
    const { packages } = JSON.parse(readFileSync(inPackage("npm-shrinkwrap.json"), "utf8"));
    const tested = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")).packages;
    const installed = Object.keys(packages).filter((path) => path !== "");
    expect(installed).toContain("node_modules/engine.io");
    expect(installed).not.toContain("node_modules/vite");
    for (const path of installed) expect(packages[path].version).toBe(tested[path].version);
  });

  it("has the licences of the libraries in it", () => {
    expect(readFileSync(inPackage("LICENCES.txt"), "utf8")).toMatch(
      /\nhono\n[^]*\npostgres\n[^]*\nswagger-ui-dist\n[^]*Apache/,
    );
  });

  it("npm would publish it without a warning", () => {
    const given = ["publish", "--dry-run", "--no-provenance", inPackage("")];
    const { status, stderr } = spawnSync("npm", given, { encoding: "utf8", cwd: folder });
    const warnings = stderr.split("\n").filter((line) => line.startsWith("npm warn"));
    // Nobody is signed in where tests run.
    expect(warnings.filter((line) => !line.includes("This command requires you to be logged in"))).toEqual([]);
    expect(status).toBe(0);
  });

  it("explains every command, and refuses an unknown one", () => {
    const run = (...args: string[]) =>
      spawnSync(process.execPath, [join(inPackage("dist/server"), "faregate-server.js"), ...args], {
        encoding: "utf8",
      });
    // Its help needs no dependency.
    const help = run("--help").stdout;
    const commands = [
      "start",
      "rest",
      "events",
      "migrate",
      "doctor",
      "backup",
      "restore",
      "check-ledger",
      "reseal",
      "rotate-token-key",
    ];
    for (const command of commands) {
      expect(help).toContain(`\n  ${command} `);
      const { status, stdout } = run(command, "--help");
      expect([status, stdout.length > 200], command).toEqual([0, true]);
    }
    expect(run("bakup")).toMatchObject({ status: 2, stderr: expect.stringContaining("Did you mean backup?") });
    expect(run("backup")).toMatchObject({ status: 2, stderr: expect.stringContaining("missing required argument") });
  });

  it("refuses to start with a driver that lacks a repair", () => {
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const file = inPackage("dist/server/postgres/connection.js");
    const repaired = readFileSync(file, "utf8");
    writeFileSync(file, repaired.replace("if (!socket)\n", "if (false)\n"));
    const { status, stderr } = spawnSync(process.execPath, [inPackage("bin/faregate-server.js")], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^The database driver is installed without its repairs .*connection\.js.*: install faregate-server again\.\n$/,
    );
    writeFileSync(file, repaired);
  });
});
