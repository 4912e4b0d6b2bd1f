import { Manager } from "socket.io-client";
import { isHidden } from "./visibility.ts";

/** Callbacks of the channel. */
export interface LiveChannelHandlers {
  /** Calls back when the page wakes; see ambient.ts. Returns a function that unsubscribes. */
  onWake(listener: () => void): () => void;
  connecting(): void;
  synchronized(): void;
  message(message: unknown): void;
  /** The connection failed or was lost; the channel retries. `error` is undefined after an ordinary close. */
  lost(error: Error | undefined): void;
}

/** An open channel. It reconnects until closed. */
export interface LiveChannel {
  /** Skips the wait before the next attempt. If an attempt in flight fails, the next one follows without a wait. */
  retryNow(): void;
  /** Closes the connection in any state. No handler is called afterwards. */
  close(): void;
}

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;

/**
 * Opens one WebSocket to the event channel, namespace `/pricings` only. The only file that imports the socket library;
 * loaded on demand. The library's own reconnection stays off: it gives up after the server closes or rejects the
 * namespace, and does not spread attempts over the whole delay. Source: contract clients §1.10.
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
  /** The page woke during this attempt, which may have started without a network. */
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
    // One attempt at a time. If this one fails, the next follows without a wait.
    else if (!socket.connected) wokeMeanwhile = true;
  };
  socket.on("connect", () => {
    attempts = 0;
    wokeMeanwhile = false;
    handlers.synchronized();
  });
  socket.on("message", (message: unknown) => handlers.message(message));
  const channel = `event channel at ${origin}${path}`;
  socket.on("connect_error", (error) => {
    // A refusal has the server's sentence. The library's own errors name no address, and carry an event of the browser.
    lost("data" in error ? error : new Error(`The ${channel} could not be reached: ${error.message}`));
  });
  socket.on("disconnect", (reason) => {
    lost(reason.endsWith("error") ? new Error(`The connection to the ${channel} was lost: ${reason}`) : undefined);
  });
  const stopWatching = handlers.onWake(() => {
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
      // This also closes the connection, in any state, because its manager has no other namespace.
      socket.disconnect();
    },
  };
}
