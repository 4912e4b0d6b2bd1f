import type { Namespace } from "socket.io";

/** What is allowed to a client that does not read. */
export interface Patience {
  /** More than this waiting for it, and it is cut: it comes back and asks for what it missed. */
  bufferedBytes: number;
  /** So is one that takes nothing for so long although something waits. */
  stallMs: number;
}

/** Where the operator has not said otherwise. */
const PATIENCE: Patience = { bufferedBytes: 256 * 1024, stallMs: 5000 };
const LOOK_EVERY_MS = 250;

/** What is looked at of an engine's connection; on Bun `transport.socket` is another one and says less. */
export interface EngineConnection {
  readyState: string;
  writeBuffer: readonly { data?: unknown; options?: { wsPreEncodedFrame?: readonly Uint8Array[] } }[];
  transport: {
    writable: boolean;
    on(event: "drain", listener: () => void): unknown;
    socket?: { bufferedAmount?: number; terminate?: () => void; getBufferedAmount?: () => number };
  };
  close(discard?: boolean): void;
}

/** The connection below a socket. */
export function connectionOf(socket: { conn: unknown }): EngineConnection {
  return socket.conn as EngineConnection;
}

/** Bytes that wait for this client, in the engine and in its WebSocket. */
export function bufferedBytes({ writeBuffer, transport }: EngineConnection): number {
  let bytes = transport.socket?.bufferedAmount ?? transport.socket?.getBufferedAmount?.() ?? 0;
  for (const { data, options } of writeBuffer) {
    const frame = options?.wsPreEncodedFrame;
    if (frame !== undefined) for (const part of frame) bytes += part.byteLength;
    else if (typeof data === "string") bytes += data.length;
  }
  return bytes;
}

/** Ends it without waiting for anything: closing politely would wait for what the client does not read. */
export function cut(connection: EngineConnection): void {
  const { terminate } = connection.transport.socket ?? {};
  if (terminate === undefined) connection.close(true);
  else terminate.call(connection.transport.socket);
}

/**
 * Looks after the clients of a namespace, so that one which does not read costs a bounded amount of memory and nobody
 * else anything. Returns how to stop.
 */
export function cutSlowClients(
  namespace: Namespace,
  onCut: (bytes: number) => void,
  patience: Patience = PATIENCE,
): () => void {
  const waitingSince = new WeakMap<EngineConnection, number>();
  namespace.on("connection", (socket) => {
    const connection = connectionOf(socket);
    connection.transport.on("drain", () => waitingSince.delete(connection));
  });
  const look = () => {
    const now = Date.now();
    for (const socket of namespace.sockets.values()) {
      const connection = connectionOf(socket);
      const idle = connection.writeBuffer.length === 0 && connection.transport.writable;
      const bytes = bufferedBytes(connection);
      if (idle && bytes === 0) {
        waitingSince.delete(connection);
        continue;
      }
      const since = waitingSince.get(connection) ?? now;
      waitingSince.set(connection, since);
      if (bytes <= patience.bufferedBytes && now - since <= patience.stallMs) continue;
      onCut(bytes);
      cut(connection);
    }
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return () => clearInterval(timer);
}
