import { Manager } from "socket.io-client";
import { onWake } from "./ambient.ts";
import { isHidden } from "./visibility.ts";

/** Callbacks of the channel. */
export interface LiveChannelHandlers {
  connecting(): void;
  synchronized(): void;
  message(message: unknown): void;
  /** The connection is gone or did not come about; it will be tried again. `error`: unless it was simply closed. */
  lost(error: Error | undefined): void;
}

/** An open channel: it reconnects for ever until closed. */
export interface LiveChannel {
  /** Retries at once if it waits to; an attempt under way is followed by another at once should it fail. */
  retryNow(): void;
  /** Ends the connection in whatever state it is; no handler is called afterwards. */
  close(): void;
}

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;

/**
 * Opens one WebSocket to the event channel, namespace `/pricings` and no other. The only file that knows the socket library, loaded
 * only when a connection is wanted. Its own reconnection stays off: it would neither come back after the server closed or refused the
 * namespace, nor spread the attempts over the whole delay. Source: contract clients §1.10.
 */
export function openLiveChannel(origin: string, path: string, handlers: LiveChannelHandlers): LiveChannel {
  const socket = new Manager(origin, {
    path,
    transports: ["websocket"],
    reconnection: false,
    autoConnect: false,
  }).socket("/pricings");
  let attempts = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** The page woke during the attempt under way, which may have begun without a network. */
  let wokeMeanwhile = false;

  const connect = () => {
    clearTimeout(timer);
    timer = undefined;
    handlers.connecting();
    socket.connect();
  };
  const lost = (error?: Error) => {
    clearTimeout(timer);
    const longestMs = wokeMeanwhile ? 0 : Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempts);
    timer = setTimeout(connect, Math.random() * longestMs);
    wokeMeanwhile = false;
    attempts += 1;
    handlers.lost(error);
  };
  const retryNow = () => {
    if (timer !== undefined) connect();
    // One attempt at a time: should this one fail, the next follows without a wait.
    else if (!socket.connected) wokeMeanwhile = true;
  };
  socket.on("connect", () => {
    attempts = 0;
    wokeMeanwhile = false;
    handlers.synchronized();
  });
  socket.on("message", (message: unknown) => handlers.message(message));
  socket.on("connect_error", lost);
  socket.on("disconnect", (reason) => lost(reason.endsWith("error") ? new Error(reason) : undefined));
  const stopWatching = onWake(() => {
    if (!isHidden()) retryNow();
  });
  connect();

  return {
    retryNow,
    close() {
      stopWatching();
      clearTimeout(timer);
      timer = undefined;
      socket.off();
      // The namespace is the only one of its manager, so this closes the connection too, in whatever state that is.
      socket.disconnect();
    },
  };
}
