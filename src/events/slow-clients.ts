import type { Namespace } from "socket.io";

/** Limits for a client that does not read. */
export interface Patience {
  /** Disconnects a client with more bytes buffered; it reconnects and resumes. */
  bufferedBytes: number;
  /** Disconnects a client that has read nothing for this time although data is buffered. */
  stallMs: number;
}

/** Default limits. */
const PATIENCE: Patience = { bufferedBytes: 256 * 1024, stallMs: 5000 };
const LOOK_EVERY_MS = 250;

/** The part of an engine's connection that is used. On Bun, `transport.socket` has fewer fields. */
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

/** Returns the connection of a socket. */
export function connectionOf(socket: { conn: unknown }): EngineConnection {
  return socket.conn as EngineConnection;
}

/** Bytes buffered for this client, in the engine and in its WebSocket. */
export function bufferedBytes({ writeBuffer, transport }: EngineConnection): number {
  let bytes = transport.socket?.bufferedAmount ?? transport.socket?.getBufferedAmount?.() ?? 0;
  for (const { data, options } of writeBuffer) {
    const frame = options?.wsPreEncodedFrame;
    if (frame !== undefined) for (const part of frame) bytes += part.byteLength;
    else if (typeof data === "string") bytes += data.length;
  }
  return bytes;
}

/** Ends the connection immediately: a clean close would wait for the client to read. */
export function cut(connection: EngineConnection): void {
  const { terminate } = connection.transport.socket ?? {};
  if (terminate === undefined) connection.close(true);
  else terminate.call(connection.transport.socket);
}

/**
 * Disconnects clients of a namespace that do not read, which bounds their memory and isolates the others. Returns a
 * function that stops it.
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
