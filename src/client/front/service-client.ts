import { isUserId, type ServiceAddress, serviceAddress } from "../address.ts";
import { createListeners } from "../listeners.ts";
import {
  type ServiceEventListener,
  type ServiceEventListeners,
  ServiceEventRegistry,
  type ServiceEvents,
} from "./service-events.ts";
import type { ServiceSession } from "./service-session.ts";
import { TokenService } from "./token-service.ts";

/** The state of the event channel, with the last failure until it is synchronized again. */
export interface ConnectionState {
  readonly status: "idle" | "connecting" | "synchronized" | "disconnected";
  readonly error: Error | null;
}

/** Options of ServiceClient. */
export interface ServiceClientOptions {
  /** Absolute http(s) URL, with the sub-path if any. Without it there is neither channel nor request. */
  url?: string | undefined;
  /** Sent as `x-api-key` by the two methods that ask for a token; the channel is public. */
  apiKey?: string | undefined;
  /** Brings tokens from the application's own back end, so that no key has to be in the browser. */
  tokenSource?: (() => Promise<string>) | undefined;
  /** Another `fetch` than the platform's. */
  fetch?: typeof fetch | undefined;
}

const IDLE: ConnectionState = { status: "idle", error: null };

/**
 * One user's connection to a Faregate deployment: it fetches and refreshes the token, and listens to the event channel. Nothing
 * happens on construction, and what does the work (ServiceSession) is loaded when there is some. Source: contract clients §1.8 to §1.10.
 */
export class ServiceClient {
  /** Base of the HTTP interface; empty without a URL. */
  readonly httpUrl: string;
  /** The event channel as the specification names it. */
  readonly wsUrl: string;
  readonly apiKey: string;
  /** Where the token is kept and features are evaluated. */
  readonly token: TokenService;
  /** Replacing the function takes effect at the next load. */
  tokenSource: (() => Promise<string>) | undefined;
  /** The state of the event channel; the same object until it changes. */
  readonly connection: ConnectionState = IDLE;
  /** @internal For ServiceSession. */
  readonly address: ServiceAddress | undefined;
  /** @internal The options of its constructor. */
  readonly options: ServiceClientOptions;
  /** @internal For ServiceSession. */
  readonly events = new ServiceEventRegistry();
  private readonly connectionListeners = createListeners();
  /** Calls back on every change of `connection`. @returns the undo. */
  readonly subscribeConnection: (listener: () => void) => () => void = this.connectionListeners.add;
  /** @internal False after disposal, after unmounting, and where the provider forbids requests. */
  isAllowed = true;
  private isDisposed = false;
  private readonly late = new Set<ServiceEventListener>();
  private session: ServiceSession | undefined;
  private loading: Promise<ServiceSession> | undefined;
  /** How many calls wait for `loading`. */
  private waiting = 0;
  private task: ReturnType<typeof setTimeout> | undefined;

  /** @throws Error that names `config.url` when a URL is given that is none. */
  constructor(options: ServiceClientOptions, token: TokenService = new TokenService()) {
    this.options = options;
    this.address = options.url === undefined ? undefined : serviceAddress(options.url);
    this.httpUrl = this.address?.httpUrl ?? "";
    this.wsUrl = this.address?.wsUrl ?? "";
    this.apiKey = options.apiKey ?? "";
    this.token = token;
    this.tokenSource = options.tokenSource;
  }

  /**
   * Makes this the user and fetches the token. Of several users the last wins, and earlier promises follow it. On failure it rejects
   * and the user stays; the token too if it was that user's. @throws ServiceRequestError, InvalidPricingTokenError
   */
  setUserId(userId: string): Promise<void> {
    // Before the first await, so that features load from this moment on; the session refuses the rest with a sentence.
    if (isUserId(userId) && this.address && this.apiKey && this.isAllowed) {
      this.token.claim(this);
      this.token.setUser(userId);
    }
    return this.work((session) => session.setUserId(userId));
  }

  /** A new token of the user, which is neither stored nor looked into. @throws ServiceRequestError */
  generateUserPricingToken(): Promise<string> {
    return this.work((session) => session.generateUserPricingToken());
  }

  /** Fetches the token again, for upgrades and consumption that no event announces. Resolves at once without a user or source. */
  refresh(): Promise<void> {
    return this.work((session) => session.refresh());
  }

  /**
   * Calls back on every such event; `synchronized` also, a moment later, when that is already so. @returns the undo.
   * @throws Error for an unknown event or when the callback is no function.
   */
  on<Event extends ServiceEvents>(event: Event, callback: ServiceEventListeners[Event]): () => void {
    const undo = this.events.on(event, callback);
    if (event === "synchronized" && this.connected) {
      this.late.add(callback);
      void Promise.resolve().then(() => {
        if (this.late.delete(callback) && this.connected) this.events.emitTo(event, callback);
      });
    }
    return undo;
  }

  /** Removes that callback, all of the event, or everything. */
  off<Event extends ServiceEvents>(event?: Event, callback?: ServiceEventListeners[Event]): void {
    this.events.off(event, callback);
  }

  /** True while the event channel is synchronized. */
  get connected(): boolean {
    return this.connection.status === "synchronized";
  }

  /** Opens the event channel unless it is open. It stays open, through losses, until `disconnect`. */
  connect(): void {
    void this.enqueue((session) => session.connect());
  }

  /** Closes the event channel; listeners stay. */
  disconnect(): void {
    void this.enqueue((session) => session.disconnect());
  }

  /** Connects again at once, for apps that come back to the foreground. */
  reconnect(): void {
    this.disconnect();
    this.connect();
  }

  /** The published client's name of `connect`. */
  connectWebSocket(): void {
    this.connect();
  }

  /** The published client's name of `disconnect`. */
  disconnectWebSocket(): void {
    this.disconnect();
  }

  /** @internal Makes this client the one that fills the token service. Call it before effects that may load a token. */
  claim(isAllowed: boolean): void {
    this.token.claim(this);
    this.isAllowed = isAllowed && !this.isDisposed;
  }

  /**
   * Runs the client while somebody holds it: refreshes, the token source, and the channel if `isConnected`; without that the service is
   * not asked for anything. Sockets open and close a task later, so that releasing and retaining at once, as React's StrictMode does,
   * changes nothing. Released, it does nothing until it is retained again. @returns the release.
   */
  retain(isConnected: boolean): () => void {
    this.claim(isConnected);
    this.token.suspend(false);
    const isSourced = this.tokenSource !== undefined;
    // Now and not in the task: else features would fail for a moment before they load.
    if (isSourced) this.token.setLoading(true);
    clearTimeout(this.task);
    const start = (delayMs: number) => {
      const task = setTimeout(async () => {
        const isDone = await this.enqueue((session) => session.run(isConnected));
        // Another task: released, or retained again, since then.
        if (!isDone && task === this.task) start(delayMs + 5000);
      }, delayMs);
      this.task = task;
    };
    if (isConnected || isSourced || this.loading) start(0);
    return () => {
      this.token.suspend(true);
      clearTimeout(this.task);
      this.task = setTimeout(() => {
        this.isAllowed = false;
        if (this.loading) void this.enqueue((session) => session.suspend());
      });
    };
  }

  /** Ends everything for good: socket, timers, requests, listeners. */
  dispose(): void {
    this.isDisposed = true;
    this.isAllowed = false;
    clearTimeout(this.task);
    this.off();
    this.session?.suspend();
  }

  /** @internal For ServiceSession. */
  changeConnection(connection = IDLE): void {
    if (connection === this.connection) return;
    // Read-only for everybody else.
    Object.assign(this, { connection });
    this.connectionListeners.notify();
  }

  private enqueue(task: (session: ServiceSession) => void): Promise<unknown> {
    return this.work((session) => {
      if (!this.isDisposed) task(session);
      return true;
    }).catch((error: unknown) => this.events.emit("error", error));
  }

  /** Runs at once when the session is loaded and no earlier call waits for it; else in the order of the calls. */
  private async work<T>(task: (session: ServiceSession) => T | Promise<T>): Promise<T> {
    if (!this.session || this.waiting) {
      this.waiting += 1;
      // One import for all callers: bundlers preload chunks, and several imports of one chunk then resolve in any order.
      this.loading ??= import("./service-session.ts").then(
        ({ ServiceSession }) => new ServiceSession(this),
        (error: unknown) => {
          this.loading = undefined;
          this.waiting = 0;
          this.token.setLoading(false);
          throw error;
        },
      );
      this.session = await this.loading;
      this.waiting -= 1;
    }
    return task(this.session);
  }
}
