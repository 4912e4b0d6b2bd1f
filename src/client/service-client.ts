import { serviceAddress } from "./address.ts";
import { Connection, type ConnectionState, IDLE } from "./connection.ts";
import { aborted, type IssuedToken, requestPricingToken } from "./request.ts";
import { readMessage, type ServiceEventListeners, ServiceEventRegistry, type ServiceEvents } from "./service-events.ts";
import { TokenLoader } from "./token-loader.ts";
import { TokenService } from "./token-service.ts";

/** What a client needs to know. */
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

/**
 * One user's connection to a Faregate deployment: it fetches and refreshes the token, and listens to the event channel.
 * Nothing happens on construction. Source: contract clients §1.8 to §1.10.
 */
export class ServiceClient {
  /** Base of the HTTP interface; empty without a URL. */
  readonly httpUrl: string;
  /** The event channel as the specification names it. */
  readonly wsUrl: string;
  readonly apiKey: string;
  /** Where the token is kept and features are evaluated. */
  readonly token: TokenService;
  /** The newest function counts. */
  tokenSource: (() => Promise<string>) | undefined;
  private readonly fetch: typeof fetch | undefined;
  private readonly events = new ServiceEventRegistry();
  private readonly loader: TokenLoader;
  private readonly channel: Connection | undefined;
  private userId: string | undefined;
  private isDisposed = false;
  private task: ReturnType<typeof setTimeout> | undefined;

  /** @throws Error that names `config.url` when a URL is given that is none. */
  constructor(options: ServiceClientOptions, token: TokenService = new TokenService()) {
    const address = options.url === undefined ? undefined : serviceAddress(options.url);
    this.httpUrl = address?.httpUrl ?? "";
    this.wsUrl = address?.wsUrl ?? "";
    this.channel =
      address &&
      new Connection(address, {
        synchronized: (again) => {
          if (again) this.loader.refreshSoon();
          this.events.emit("synchronized");
        },
        message: (message) => this.receive(message),
        error: (error) => this.events.emit("error", error),
      });
    this.apiKey = options.apiKey ?? "";
    this.token = token;
    this.tokenSource = options.tokenSource;
    this.fetch = options.fetch;
    this.loader = new TokenLoader(token, (error) => this.events.emit("error", error));
  }

  /**
   * Makes this the user and fetches the token. Of several users the last wins, and earlier promises follow it. On failure it rejects
   * and the user stays; the token too if it was that user's. @throws ServiceRequestError, InvalidPricingTokenError
   */
  async setUserId(userId: string): Promise<void> {
    if (this.isDisposed) throw aborted();
    if (typeof userId !== "string" || userId.trim() === "") throw new Error("User ID must be a non-empty string.");
    this.checkUser(userId);
    const isSame = userId === this.userId;
    if (isSame && this.loader.isLoading) return this.loader.load();
    this.userId = userId;
    this.token.claim(this);
    this.loader.use((signal) => this.requestToken(userId, signal));
    const outcome = this.loader.fly();
    if (!isSame) this.token.clear();
    return outcome;
  }

  /** A new token of the user, which is neither stored nor looked into. @throws ServiceRequestError */
  async generateUserPricingToken(): Promise<string> {
    if (this.isDisposed) throw aborted();
    if (this.userId === undefined) {
      throw new Error(
        "User ID is not set. Please set the user ID with `setUserId(userId)` before trying to generate a pricing token.",
      );
    }
    return (await this.requestToken(this.userId)).token;
  }

  /** Fetches the token again, for upgrades and consumption that no event announces. Resolves at once without a user or source. */
  async refresh(): Promise<void> {
    return this.loader.load();
  }

  /**
   * Calls back on every such event; `synchronized` also, a moment later, when that is already so. @returns the undo.
   * @throws Error for an unknown event or when the callback is no function.
   */
  on<Event extends ServiceEvents>(event: Event, callback: ServiceEventListeners[Event]): () => void {
    const undo = this.events.on(event, callback);
    if (event === "synchronized" && this.connected) {
      void Promise.resolve().then(() => {
        if (this.connected && this.events.has(event, callback)) (callback as () => void)();
      });
    }
    return undo;
  }

  /** Removes that callback, all of the event, or everything. */
  off<Event extends ServiceEvents>(event?: Event, callback?: ServiceEventListeners[Event]): void {
    this.events.off(event, callback);
  }

  /** Whether events arrive at this moment. */
  get connected(): boolean {
    return this.connection.status === "synchronized";
  }

  /** The state of the event channel; the same object until it changes. */
  get connection(): ConnectionState {
    return this.channel?.state ?? IDLE;
  }

  /** Calls back on every change of `connection`. @returns the undo. */
  subscribeConnection(listener: () => void): () => void {
    return this.channel?.subscribe(listener) ?? (() => {});
  }

  /** Opens the event channel unless it is open. It stays open, through losses, until `disconnect`. */
  connect(): void {
    if (!this.isDisposed) this.channel?.open();
  }

  /** Closes the event channel; listeners stay. */
  disconnect(): void {
    this.channel?.close();
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

  /**
   * Runs the client while somebody holds it: refreshes, the token source, and the channel if `isConnected`. Sockets open and close a
   * task later, so that releasing and retaining at once, as React's StrictMode does, changes nothing. @returns the release.
   */
  retain(isConnected: boolean): () => void {
    const { token, tokenSource } = this;
    token.claim(this);
    if (tokenSource !== undefined && this.userId === undefined) {
      this.loader.use(async () => ({ token: await (this.tokenSource ?? tokenSource)(), serverTimeMs: 0 }));
      // Now and not in the task: else features would fail for a moment before they load.
      if (token.status !== "valid") this.loader.refresh();
    }
    this.later(() => {
      if (isConnected) this.connect();
      else this.disconnect();
      if (isConnected || tokenSource !== undefined) this.loader.start();
      else this.loader.stop();
    });
    return () => this.later(() => this.rest());
  }

  /** Ends everything for good: socket, timers, requests, listeners. */
  dispose(): void {
    clearTimeout(this.task);
    this.isDisposed = true;
    this.off();
    this.rest();
    this.loader.use(undefined);
  }

  private rest(): void {
    this.disconnect();
    this.loader.stop();
  }

  private later(task: () => void): void {
    clearTimeout(this.task);
    this.task = setTimeout(() => {
      if (!this.isDisposed) task();
    }, 0);
  }

  private checkUser(userId: string): void {
    // Dots survive percent-encoding, and URL parsing would climb to another route.
    if (userId === "." || userId === "..") throw new Error("User ID must not be '.' or '..'.");
    if (this.channel === undefined) throw new Error("config.url is needed to fetch a pricing token.");
    if (this.apiKey === "") throw new Error("config.apiKey is needed to fetch a pricing token.");
  }

  private requestToken(userId: string, signal?: AbortSignal): Promise<IssuedToken> {
    return requestPricingToken({ httpUrl: this.httpUrl, apiKey: this.apiKey, userId, signal, fetch: this.fetch });
  }

  private receive(message: unknown): void {
    try {
      const read = readMessage(message);
      if (read === undefined) return;
      const { event, details } = read;
      if ((event === "pricing_archived" || event === "service_disabled") && this.isAbout(details.serviceName)) {
        this.loader.refreshSoon();
      }
      this.events.emit(event, details);
    } catch (error) {
      this.events.emit("error", error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Whether the token has a feature of that service; the channel tells of everybody's. */
  private isAbout(serviceName: string): boolean {
    const prefix = `${serviceName.toLowerCase()}-`;
    return Object.keys(this.token.getPayload()?.features ?? {}).some((id) => id.startsWith(prefix));
  }
}
