import { createRequire } from "node:module";

/*
 * Holds many clients in its own process: `node --import tsx event-clients.ts <url> <count>`. It sends `ready` to its
 * parent, and for each message the time at which the last client received it. On `{ storm: milliseconds }` it cuts all
 * clients off and reconnects each within that time, with retries. Then it sends `back` with the elapsed milliseconds.
 */

interface Client {
  on(event: "message", listener: (data: Uint8Array) => void): void;
  on(event: "open" | "close", listener: () => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  send(data: string): void;
  terminate(): void;
}
const WebSocketClient = createRequire(createRequire(import.meta.url).resolve("engine.io"))("ws") as new (
  url: string,
) => Client;

const [, , url = "", count = "0"] = process.argv;
const total = Number(count);
let joined = 0;
const received = new Map<string, number>();
const clients = new Set<Client>();

function open(): Promise<void> {
  return new Promise((resolve, reject) => {
    const client = new WebSocketClient(url);
    client.on("error", reject);
    client.on("open", () => {
      clients.add(client);
      client.send("40/pricings,");
    });
    client.on("close", () => clients.delete(client));
    client.on("message", (data) => {
      const frame = new TextDecoder().decode(data);
      if (frame === "2") client.send("3");
      else if (frame.startsWith("40/pricings,")) {
        joined += 1;
        resolve();
      } else if (frame.startsWith("42/pricings,")) {
        const many = (received.get(frame) ?? 0) + 1;
        received.set(frame, many);
        if (many === total) process.send?.({ all: frame, at: Date.now() });
      }
    });
  });
}

for (let at = 0; at < total; at += 100) {
  await Promise.all(Array.from({ length: Math.min(100, total - at) }, open));
}
process.send?.({ ready: joined });
process.on("message", (told: { storm: number }) => void storm(told.storm));
process.on("disconnect", () => process.exit(0));

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function comeBack(): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await open();
    } catch (error) {
      if (tries === 20) throw error;
      await pause(500 + Math.random() * 1000);
    }
  }
}

async function storm(spreadMs: number): Promise<void> {
  const from = Date.now();
  for (const client of clients) client.terminate();
  await Promise.all(
    Array.from({ length: total }, async () => {
      await pause(Math.random() * spreadMs);
      await comeBack();
    }),
  );
  process.send?.({ back: Date.now() - from });
}
