import { createRequire } from "node:module";

interface RawSocket {
  on(event: "message", listener: (data: Uint8Array) => void): void;
  on(event: "close", listener: (code: number) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  on(event: "open", listener: () => void): void;
  on(event: "unexpected-response", listener: (request: unknown, response: { statusCode: number }) => void): void;
  send(data: string): void;
  close(): void;
}

// The WebSocket client inside Socket.IO, which has no types.
const WebSocketClient = createRequire(createRequire(import.meta.url).resolve("engine.io"))("ws") as new (
  url: string,
) => RawSocket;

/** A WebSocket without a protocol: frames as text, in order. */
export interface RawClient {
  frames: string[];
  /** Close code. */
  closed: Promise<number>;
  send(frame: string): void;
  close(): void;
  /** Resolves when the next frame arrives. */
  next(): Promise<void>;
  /** Returns the frame at this index, after waiting at most 20 s. */
  frame(index: number): Promise<string>;
}

/** Connects. Rejects when the server refuses the upgrade. */
export async function openRaw(url: string): Promise<RawClient> {
  const socket = new WebSocketClient(url);
  const frames: string[] = [];
  const closed = new Promise<number>((resolve) => socket.on("close", resolve));
  const waiting: (() => void)[] = [];
  socket.on("message", (data) => {
    frames.push(new TextDecoder().decode(data));
    for (const wake of waiting.splice(0)) wake();
  });
  await new Promise<void>((resolve, reject) => {
    socket.on("open", resolve);
    socket.on("error", reject);
  });
  return {
    frames,
    closed,
    send: (frame) => socket.send(frame),
    close: () => socket.close(),
    next: () => new Promise((resolve) => waiting.push(resolve)),
    frame: async (index) => {
      await until(() => frames.length > index, `frame ${index} of ${JSON.stringify(frames)}`);
      return frames[index] ?? "";
    },
  };
}

/** Connects and joins `/pricings`; frames 0 and 1 are the two greetings. */
export async function openPricings(url: string): Promise<RawClient> {
  const client = await openRaw(url);
  await client.frame(0);
  client.send("40/pricings,");
  await client.frame(1);
  return client;
}

/**
 * Waits until a condition holds.
 * @throws Error with `what` after `milliseconds`.
 */
export async function until(condition: () => boolean, what: string, milliseconds = 20_000): Promise<void> {
  const deadline = Date.now() + milliseconds;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited ${milliseconds} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
