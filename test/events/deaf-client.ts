import { createConnection } from "node:net";
import { until } from "./raw-client.ts";

/** A client that has stopped reading. */
export interface DeafClient {
  isClosed: () => boolean;
  destroy(): void;
}

/** Joins `/pricings` over a bare TCP connection and then never reads again. */
export async function openDeaf(port: number): Promise<DeafClient> {
  const socket = createConnection(port, "127.0.0.1");
  let received = "";
  let closed = false;
  socket.on("data", (data: Buffer) => (received += data.toString("latin1")));
  socket.on("error", () => (closed = true));
  socket.on("close", () => (closed = true));
  socket.write(
    `GET /events/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  );
  await until(() => received.includes("pingInterval"), "the greeting");
  const text = new TextEncoder().encode("40/pricings,");
  socket.write(Uint8Array.from([0x81, 0x80 | text.length, 0, 0, 0, 0, ...text]));
  await until(() => received.includes("40/pricings,"), "the namespace");
  socket.pause();
  // A client that does not read notices the end only when it writes.
  const poke = setInterval(() => {
    if (closed) clearInterval(poke);
    else socket.write(Uint8Array.from([0x8a, 0x80, 0, 0, 0, 0]));
  }, 100);
  return {
    isClosed: () => closed,
    destroy: () => {
      clearInterval(poke);
      socket.destroy();
    },
  };
}
