import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Connection } from "../../src/db/postgres/connect.ts";
import { recordEvent } from "../../src/db/queries/outbox.ts";
import type { RunningServer } from "../support/event-server.ts";
import { forkClients, megabytesOf } from "./processes.ts";

const MESSAGES = 20;
const COME_BACK_MS = 10_000;

/** Bounds for 10,000 sockets. MAX_KB_EACH: memory per socket; MAX_LEFT_MB: memory not released after a storm. */
const MAX_KB_EACH = 16;
const MAX_LEFT_MB = 30;
const MAX_LAST_MS = 500;
const MAX_STALL_MS = 50;
const MAX_BACK_MS = 15_000;

/** Returns the next value that a child sends under this name. */
async function told<T>(child: ChildProcess, name: string): Promise<T> {
  for (;;) {
    const [message] = (await once(child, "message")) as [Record<string, T>];
    const value = message[name];
    if (value !== undefined) return value;
  }
}

/**
 * Measures `count` sockets on one event server: time to join, memory per socket, fan-out time of a message, event-loop
 * stall meanwhile. Then it cuts all off; they reconnect within ten seconds and receive another message.
 */
export async function socketStorm(
  server: RunningServer,
  { db }: Connection,
  count: number,
): Promise<{ lines: string[]; problems: string[] }> {
  const lines: string[] = [];
  const problems: string[] = [];
  const line = (what: string, value: number, most: number, unit: string) => {
    if (value > most) problems.push(`${what}: ${value} ${unit}, more than ${most}`);
    lines.push(`| ${what} | ${value} ${unit} | ${most} ${unit} |`);
  };
  const megabytes = () => Math.round(megabytesOf(server.process.pid));
  const before = megabytes();
  const since = Date.now();
  const halves = [Math.ceil(count / 2), Math.floor(count / 2)];
  const children = halves.map((half) => forkClients(server.url, half));
  try {
    await Promise.all(children.map((child) => told(child, "ready")));
    line("all have joined after", Date.now() - since, MAX_BACK_MS, "ms");
    const most = before + Math.ceil((count * MAX_KB_EACH) / 1024) + MAX_LEFT_MB;
    line(`memory with them (${before} MB without)`, megabytes(), most, "MB");

    let stallMs = 0;
    const over = new AbortController();
    const watch = (async () => {
      while (!over.signal.aborted) {
        const asked = performance.now();
        await (await fetch(`${server.url}/live`)).arrayBuffer();
        stallMs = Math.max(stallMs, performance.now() - asked);
      }
    })();
    const send = async (name: string): Promise<number> => {
      const event = { code: "PRICING_CREATED", details: { serviceName: name, pricingVersion: "1.0.0" } } as const;
      const at = Date.now();
      const arrived = children.map((child) => told<number>(child, "at"));
      await db.transaction((tx) => recordEvent(tx, null, event));
      return Math.max(...(await Promise.all(arrived))) - at;
    };
    const took: number[] = [];
    for (let i = 0; i < MESSAGES; i += 1) took.push(await send(`Message ${i}`));
    line("the last of them has a message after", Math.max(...took), MAX_LAST_MS, "ms");
    line("nothing else happens meanwhile for", Math.round(stallMs), MAX_STALL_MS, "ms");
    over.abort();
    await watch;

    const back = children.map((child) => told<number>(child, "back"));
    for (const child of children) child.send({ storm: COME_BACK_MS });
    line("cut off, all are back after", Math.max(...(await Promise.all(back))), MAX_BACK_MS, "ms");
    line("the last of them has a message after that after", await send("After the storm"), MAX_LAST_MS, "ms");
    line("memory after that", megabytes(), most + MAX_LEFT_MB, "MB");
  } finally {
    for (const child of children) child.disconnect();
  }
  return { lines, problems };
}
