import { isSegment, type ServiceAddress, serviceAddress } from "../address.ts";
import { createListeners } from "../listeners.ts";
import {
  type ServiceEventListener,
  type ServiceEventListeners,
  ServiceEventRegistry,
  type ServiceEvents,
} from "./service-events.ts";
import type { ServiceSession } from "./service-session.ts";
import type { ConnectionState } from "./session-host.ts";
import { TokenService } from "./token-service.ts";

/** Options of ServiceClient. */
export interface ServiceClientOptions {
  /** Absolute http(s) URL, including the sub-path. Without it, there is neither channel nor request. */
  url?: string | undefined;
  /** Sent as `x-api-key` by the two methods that request a token. The channel is public. */
  apiKey?: string | undefined;
  /** Loads tokens from the application's own back end, so that the browser needs no key. */
  tokenSource?: (() => Promise<string>) | undefined;
  /** Replaces the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

const IDLE: ConnectionState = { status: "idle", error: null };

/**
 * One user's connection to a Faregate deployment: loads and refreshes the token, and listens to the event channel.
 * Construction has no effect. The working part, ServiceSession, is a separate chunk that loads on demand. Source:
 * contract clients §1.8 to §1.10.
 */
export class ServiceClient {
  /** Base of the HTTP interface; empty without a URL. */
  readonly httpUrl: string;
  /** Event channel as the specification names it. */
  readonly wsUrl: string;
  readonly apiKey: string;
  /** Stores the token and evaluates features. */
  readonly token: TokenService;
  /** Replacing the function takes effect at the next load. */
  tokenSource: (() => Promise<string>) | undefined;
  /** State of the event channel. The object stays identical until it changes. */
  readonly connection: ConnectionState = IDLE;
  /** @internal For ServiceSession. */
  readonly address: ServiceAddress | undefined;
  /** @internal The options of its constructor. */
  readonly options: ServiceClientOptions;
  /** @internal For ServiceSession. */
  readonly events = new ServiceEventRegistry();
  private readonly connectionListeners = createListeners();
  /**
   * Calls back on every change of `connection`.
   * @returns a function that unsubscribes.
   */
  readonly subscribeConnection: (listener: () => void) => () => void = this.connectionListeners.add;
  /** @internal Path of the one whose budgets decide. Clear the token when it changes. */
  declare spender?: string | undefined;
  /** @internal False after disposal, after unmounting, and where the provider forbids requests. */
  isAllowed = true;
  private isDisposed = false;
  private readonly late = new Set<ServiceEventListener>();
  private session: ServiceSession | undefined;
  private loading: Promise<ServiceSession> | undefined;
  /** Calls that wait for `loading`. */
  private waiting = 0;
  private task: ReturnType<typeof setTimeout> | undefined;

  /**
   * Checks the options.
   * @throws Error that names `config.url` if it is not a URL.
   */
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
   * Sets the user and loads its token. Of concurrent calls the last wins, and earlier promises follow it. On failure it
   * rejects; the user stays, and so does the user's own token.
   * @throws ServiceRequestError, InvalidPricingTokenError
   */
  setUserId(userId: string): Promise<void> {
    // Before the first await, so that features show as loading from now on. The session rejects other ids with a
    // sentence.
    const isValid = isSegment(userId);
    if (isValid && this.address && this.apiKey && this.isAllowed) {
      this.token.claim(this);
      this.token.setUser(userId);
    }
    return this.work((session) => session.setUserId(userId, isValid));
  }

  /**
   * Requests a new token of the user, and returns it without storing or parsing it.
   * @throws ServiceRequestError
   */
  generateUserPricingToken(): Promise<string> {
    return this.work((session) => session.generateUserPricingToken());
  }

  /**
   * Loads the token again, for upgrades and consumption that no event announces. Resolves at once without a user or
   * token source.
   */
  refresh(): Promise<void> {
    return this.work((session) => session.refresh());
  }

  /**
   * Calls back on every such event. If the channel is synchronized already, `synchronized` also fires a moment later.
   * @returns a function that unsubscribes.
   * @throws Error for an unknown event, or if the callback is not a function.
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

  /** Removes the callback, all callbacks of the event, or all callbacks. */
  off<Event extends ServiceEvents>(event?: Event, callback?: ServiceEventListeners[Event]): void {
    this.events.off(event, callback);
  }

  /** True while the event channel is synchronized. */
  get connected(): boolean {
    return this.connection.status === "synchronized";
  }

  /** Opens the event channel unless it is open. It reconnects after losses until `disconnect`. */
  connect(): void {
    void this.enqueue((session) => session.connect());
  }

  /** Closes the event channel; listeners stay. */
  disconnect(): void {
    void this.enqueue((session) => session.disconnect());
  }

  /** Reconnects at once, for apps that return to the foreground. */
  reconnect(): void {
    this.disconnect();
    this.connect();
  }

  /** Name of `connect` in the published client. */
  connectWebSocket(): void {
    this.connect();
  }

  /** Name of `disconnect` in the published client. */
  disconnectWebSocket(): void {
    this.disconnect();
  }

  /** @internal Makes this client the one that fills the token service. Call it before effects that may load a token. */
  claim(isAllowed: boolean): void {
    this.token.claim(this);
    this.isAllowed = isAllowed && !this.isDisposed;
  }

  /**
   * Runs the client while it is held: refreshes the token and, if `isConnected`, opens the channel. Without
   * `isConnected` it sends no request to the service. Sockets open and close one task later, so React's StrictMode,
   * which releases and retains at once, changes nothing. After the release it waits for the next `retain`.
   * @returns the function that releases.
   */
  retain(isConnected: boolean): () => void {
    this.claim(isConnected);
    this.token.suspend(false);
    const isSourced = this.tokenSource !== undefined;
    // Now, and not in the task: otherwise features would show an error before they load.
    if (isSourced) this.token.setLoading(true);
    clearTimeout(this.task);
    const start = (delayMs: number) => {
      const task = setTimeout(async () => {
        const isDone = await this.enqueue((session) => session.run(isConnected));
        // The client was released, or retained again, in the meantime.
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

  /** Ends socket, timers, requests and listeners for good. */
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

  /** Runs a task at once if the session is loaded and no earlier call waits; otherwise in the order of the calls. */
  private async work<T>(task: (session: ServiceSession) => T | Promise<T>): Promise<T> {
    if (!this.session || this.waiting) {
      this.waiting += 1;
      // One import for all callers: bundlers preload chunks, and several imports of one chunk can then resolve in any
      // order.
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
