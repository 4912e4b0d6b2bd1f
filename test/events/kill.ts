import { io, type Socket } from "socket.io-client";
import { expect } from "vitest";
import { recordEvent } from "../../src/db/queries/outbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { freePort, type RunningServer, startEventServer } from "../support/event-server.ts";
import { until } from "./raw-client.ts";

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A client that resumes, with the ids that it received in order. */
interface Resuming {
  ids: number[];
  resyncs: number;
  close(): void;
}

function resumingSocket(url: string): Resuming {
  const got: Resuming = { ids: [], resyncs: 0, close: () => socket.disconnect() };
  let last = 0;
  const socket: Socket = io(`${url}/pricings`, {
    path: "/events",
    transports: ["websocket"],
    forceNew: true,
    reconnectionDelay: 50,
    reconnectionDelayMax: 300,
    auth: (answer) => answer({ lastEventId: last }),
  });
  socket.on("message", ({ id }: { id: number }) => {
    got.ids.push(id);
    last = id;
  });
  socket.on("resync", () => (got.resyncs += 1));
  return got;
}

function resumingStream(url: string): Resuming {
  const stop = new AbortController();
  const got: Resuming = { ids: [], resyncs: 0, close: () => stop.abort() };
  const follow = async () => {
    const headers = { "last-event-id": String(got.ids.at(-1) ?? 0) };
    const answer = await fetch(`${url}/api/v1/events/stream`, { headers, signal: stop.signal });
    let text = "";
    for await (const piece of answer.body ?? []) {
      text += new TextDecoder().decode(piece);
      const whole = text.slice(0, text.lastIndexOf("\n\n") + 2);
      text = text.slice(whole.length);
      for (const [, id] of whole.matchAll(/^id: (\d+)\ndata: /gm)) got.ids.push(Number(id));
      if (whole.includes("resync")) got.resyncs += 1;
    }
  };
  void (async () => {
    while (!stop.signal.aborted) await follow().catch(() => pause(50));
  })();
  return got;
}

/**
 * Writes events while SIGKILL hits the event server and its Postgres backends in turn. Every client that resumes must
 * end with each event exactly once, in order.
 */
export async function expectNothingLost(options: { events: number; kills: number }): Promise<void> {
  const database: TestDatabase = await createTestDatabase();
  const environment = { EVENTS_PORT: String(await freePort()), LOG_LEVEL: "error" };
  let server: RunningServer = await startEventServer(database.url, environment);
  const clients = [
    ...Array.from({ length: 5 }, () => resumingSocket(server.url)),
    ...Array.from({ length: 2 }, () => resumingStream(server.url)),
  ];
  let killed = 0;
  let written = 0;
  const write = async () => {
    while (written < options.events) {
      // Distributes the events over all kills, in bursts.
      if (written > ((killed + 1) / options.kills) * options.events) await pause(20);
      else {
        const details = { serviceName: `S${written}` };
        await database.connection.db.transaction((tx) => recordEvent(tx, null, { code: "SERVICE_DISABLED", details }));
        written += 1;
        if (written % 5 === 0) await pause(50);
      }
    }
  };
  const kill = async () => {
    for (; killed < options.kills; killed += 1) {
      if (killed % 2 === 0) {
        server.process.kill("SIGKILL");
        server = await startEventServer(database.url, environment);
      } else {
        const ended = await database.connection.client`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name like 'faregate-events%'`;
        expect(ended.length).toBeGreaterThan(0);
      }
      await pause(100 + Math.random() * 150);
    }
  };
  await Promise.all([write(), kill()]);
  const expected = Array.from({ length: written }, (_, i) => i + 1);
  await until(() => clients.every(({ ids }) => ids.at(-1) === written), "the last event at every client", 60_000);
  for (const { ids, resyncs, close } of clients) {
    close();
    expect(ids).toEqual(expected);
    expect(resyncs).toBe(0);
  }
  await server.stop();
  await database.drop();
}
