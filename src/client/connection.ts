import type { ServiceAddress } from "./address.ts";
import { createListeners } from "./listeners.ts";
import type { LiveChannel } from "./live-channel.ts";

/** The state of the event channel, with the last failure until it is synchronized again. */
export interface ConnectionState {
  readonly status: "idle" | "connecting" | "synchronized" | "disconnected";
  readonly error: Error | null;
}

/** What a connection tells its client. */
export interface ConnectionHandlers {
  /** `again`: after a loss, so that events may have been missed. */
  synchronized(again: boolean): void;
  message(message: unknown): void;
  error(error: Error): void;
}

/** The state before connecting and after disconnecting. */
export const IDLE: ConnectionState = Object.freeze({ status: "idle", error: null });

/** The event channel as one state to observe. The socket code is loaded when it is first opened. */
export class Connection {
  private current = IDLE;
  private isWanted = false;
  private hasBeenSynchronized = false;
  private channel: LiveChannel | undefined;
  private readonly listeners = createListeners();
  private readonly address: ServiceAddress;
  private readonly handlers: ConnectionHandlers;

  constructor(address: ServiceAddress, handlers: ConnectionHandlers) {
    this.address = address;
    this.handlers = handlers;
  }

  /** The same object until it changes. */
  get state(): ConnectionState {
    return this.current;
  }

  /** Calls back on every change of `state`. @returns the undo. */
  subscribe(listener: () => void): () => void {
    return this.listeners.add(listener);
  }

  /** Opens the channel unless it is open. It stays open, through losses, until `close`. */
  open(): void {
    if (this.isWanted) return;
    this.isWanted = true;
    this.change("connecting");
    import("./live-channel.ts").then(
      ({ openLiveChannel }) => {
        if (!this.isWanted || this.channel !== undefined) return;
        this.channel = openLiveChannel(this.address.socketOrigin, this.address.enginePath, {
          connecting: () => this.change("connecting", this.current.error),
          synchronized: () => this.synchronized(),
          message: (message) => this.handlers.message(message),
          lost: (error) => this.lost(error),
        });
      },
      (error: unknown) => {
        this.isWanted = false;
        this.lost(error instanceof Error ? error : new Error(String(error)));
      },
    );
  }

  /** Closes the channel in whatever state it is. */
  close(): void {
    this.isWanted = false;
    this.channel?.close();
    this.channel = undefined;
    if (this.current !== IDLE) this.change("idle");
  }

  private synchronized(): void {
    this.change("synchronized");
    const again = this.hasBeenSynchronized;
    this.hasBeenSynchronized = true;
    this.handlers.synchronized(again);
  }

  private lost(error: Error | undefined): void {
    this.change("disconnected", error ?? this.current.error);
    if (error !== undefined) this.handlers.error(error);
  }

  private change(status: ConnectionState["status"], error: Error | null = null): void {
    this.current = status === "idle" ? IDLE : Object.freeze({ status, error });
    this.listeners.notify();
  }
}
