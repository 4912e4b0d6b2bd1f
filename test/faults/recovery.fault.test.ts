import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { io } from "socket.io-client";
import { describe, expect, it } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { recordEvent } from "../../src/db/queries/outbox.ts";
import { openPricings } from "../events/raw-client.ts";
import {
  alive,
  childOf,
  databaseUrl,
  folder,
  healthy,
  launchAndWait,
  ports,
  processesOn,
  signIn,
  until,
  useLaunchers,
} from "../entries/launcher.ts";

useLaunchers();

describe("whatever is killed", () => {
  it("a hung REST process and a hung event server are killed and started again", { timeout: 120_000 }, async () => {
    const launcher = await launchAndWait();
    const processes = [
      ["REST process", "/node.js"],
      ["event server", "/events-node.js"],
    ] as const;
    const hung = processes.map(([, script]) => childOf(launcher, script));
    // Together, because each is given 10 s to respond.
    for (const pid of hung) process.kill(pid, "SIGSTOP");
    for (const [at, [name, script]] of processes.entries()) {
      await until(() => launcher.errors().includes(`The ${name} is back.`), launcher.errors);
      expect(launcher.errors()).toContain(`The ${name} did not respond for 10 s; starting it again.`);
      expect(childOf(launcher, script)).not.toBe(hung[at]);
    }
    expect(await healthy(ports.PORT)).toBe(true);
    expect(await healthy(ports.EVENTS_PORT)).toBe(true);
  });

  it("what dies is brought back: REST, the event server, the database", { timeout: 120_000 }, async () => {
    const launcher = await launchAndWait();
    const client = io(`http://127.0.0.1:${ports.EVENTS_PORT}/pricings`, {
      path: "/events",
      transports: ["websocket"],
      // A server keeps events for those who come back within ten seconds.
      reconnectionDelayMax: 1000,
    });
    const messages: { details: { serviceName: string } }[] = [];
    client.on("message", (message) => messages.push(message));
    await until(
      () => client.connected,
      () => "the client's connection",
    );

    process.kill(childOf(launcher, "/node.js"), "SIGKILL");
    await until(() => launcher.errors().includes("The REST process is back."), launcher.errors);
    expect(await healthy(ports.PORT)).toBe(true);

    const connection = connect(await databaseUrl(), { maxConnections: 1 });
    const record = (serviceName: string) =>
      connection.db.transaction((tx) => recordEvent(tx, "o", { code: "SERVICE_DISABLED", details: { serviceName } }));
    await record("before");
    await until(
      () => messages.length === 1,
      () => "the event before",
    );
    process.kill(childOf(launcher, "/events-node.js"), "SIGKILL");
    await record("meanwhile");
    await until(() => launcher.errors().includes("The event server is back."), launcher.errors);
    await until(
      () => messages.length === 2,
      () => "the event that was recorded meanwhile",
    );
    await record("after");
    await until(
      () => messages.length === 3,
      () => "the event after",
    );

    const postmaster = Number.parseInt(readFileSync(join(folder, "data", "postgres", "postmaster.pid"), "utf8"), 10);
    process.kill(postmaster, "SIGKILL");
    await until(() => launcher.errors().includes("The database is back."), launcher.errors);
    await until(
      async () => (await signIn("x")).status === 401,
      () => "an answer out of the database",
    );
    await until(
      () =>
        record("later").then(
          () => true,
          () => false,
        ),
      () => "the database's return",
    );
    await until(
      () => messages.length === 4,
      () => "the event after the database's return",
    );
    expect(messages.map(({ details }) => details.serviceName)).toEqual(["before", "meanwhile", "after", "later"]);
    client.disconnect();
    await connection.close(0);
  });

  it("a launcher that is killed leaves no process, and the next one starts", { timeout: 120_000 }, async () => {
    const launcher = await launchAndWait();
    const pids = [childOf(launcher, "/node.js"), childOf(launcher, "/events-node.js"), ...processesOn(folder)];
    const socket = await openPricings(`ws://127.0.0.1:${ports.EVENTS_PORT}/events/?EIO=4&transport=websocket`);
    launcher.process.kill("SIGKILL");
    expect(await launcher.exit).toBe("SIGKILL");
    await socket.closed;
    await until(
      () => pids.every((pid) => !alive(pid)),
      () => `${pids.filter(alive).join()} are still there`,
    );
    const next = await launchAndWait();
    next.process.kill("SIGTERM");
    expect(await next.exit).toBe(0);
  });

  it("a database that a killed launcher left behind is stopped and taken over", { timeout: 120_000 }, async () => {
    const launcher = await launchAndWait();
    const postmaster = Number.parseInt(readFileSync(join(folder, "data", "postgres", "postmaster.pid"), "utf8"), 10);
    const { stdout } = spawnSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" });
    const guard = stdout.split("\n").find((line) => line.endsWith(`faregate-postgres-guard ${postmaster}`)) ?? "";
    process.kill(Number.parseInt(guard, 10), "SIGKILL");
    const children = [childOf(launcher, "/node.js"), childOf(launcher, "/events-node.js")];
    launcher.process.kill("SIGKILL");
    await until(
      () => children.every((pid) => !alive(pid)),
      () => "the children's end",
    );
    expect(alive(postmaster)).toBe(true);
    await launchAndWait();
    expect(alive(postmaster)).toBe(false);
  });
});
