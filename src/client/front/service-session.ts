import { aborted, type IssuedToken, requestPricingToken } from "../request.ts";
import type { LiveChannel } from "./live-channel.ts";
import { readMessage } from "./messages.ts";
import type { SessionHost } from "./session-host.ts";
import { TokenLoader } from "./token-loader.ts";

/** Requests, timers and channel of a client. A separate chunk: pages that only show a token never load it. */
export class ServiceSession {
  private readonly client: SessionHost;
  private readonly loader: TokenLoader;
  private userId: string | undefined;
  /** Aborts all requests but the loader's. */
  private lifetime = new AbortController();
  /** Undefined until a call opens or closes the channel; reset by `suspend`. */
  private wantsChannel: boolean | undefined;
  /** True if events may have been missed: the channel was synchronized before, or an attempt to connect failed. */
  private hasGap = false;
  private channel: LiveChannel | undefined;

  constructor(client: SessionHost) {
    this.client = client;
    this.loader = new TokenLoader(client.token, (error) => client.events.emit("error", error));
  }

  /** See ServiceClient.setUserId, which has validated the id and set the state. */
  async setUserId(userId: string, isValid: boolean): Promise<void> {
    if (!isValid) {
      const isText = typeof userId === "string" && userId.trim() !== "";
      const wrong = isText ? "not be '.', '..' or ill-formed Unicode" : "be a non-empty string";
      throw new Error(`User ID must ${wrong}.`);
    }
    if (!this.client.address) throw new Error("config.url is needed to fetch a pricing token.");
    if (!this.client.apiKey) throw new Error("config.apiKey is needed to fetch a pricing token.");
    const { id } = this.client.token.user;
    // The user signed out while this chunk was loading.
    if (!this.client.isAllowed || id === undefined) throw aborted();
    if (id === this.userId && this.loader.isLoading) return this.loader.load();
    this.use(id);
    return this.loader.fetchNow();
  }

  /** See ServiceClient.generateUserPricingToken. */
  async generateUserPricingToken(): Promise<string> {
    const { id } = this.client.token.user;
    if (!id) {
      throw new Error(
        "User ID is not set. Please set the user ID with `setUserId(userId)` before trying to generate a pricing token.",
      );
    }
    return (await this.requestToken(id, this.lifetime.signal)).token;
  }

  /** See ServiceClient.refresh. */
  refresh(): Promise<void> {
    return this.loader.load();
  }

  /** Keeps the token fresh and, if `isConnected`, the channel open. Otherwise only the token source is used. */
  run(isConnected: boolean): void {
    const { client, loader, userId } = this;
    const { token, tokenSource } = client;
    const { id } = token.user;
    if (!isConnected) this.pause();
    else if (this.wantsChannel === undefined) this.connect();
    if (isConnected && id !== undefined) {
      this.use(id);
      // The call that set this user failed to load this chunk.
      if (id !== userId) loader.refresh();
    } else if (tokenSource) {
      const source = async () => ({ token: await (client.tokenSource ?? tokenSource)() });
      loader.use(source, source);
      if (token.status !== "valid") loader.refresh();
    }
    // Otherwise `setUserId` set the loading state, and one of its calls may still wait for its turn.
    if (!isConnected || tokenSource) token.setLoading(loader.isLoading);
    if (isConnected || tokenSource) loader.start();
  }

  /** Ends channel, timers and requests. User and listeners stay, and `run` resumes. */
  suspend(): void {
    this.pause();
    // At once: another client may fill the token service in a moment.
    this.client.token.setLoading(false);
  }

  private pause(): void {
    this.disconnect();
    this.wantsChannel = undefined;
    this.loader.stop();
    this.loader.use(undefined);
    this.lifetime.abort();
    this.lifetime = new AbortController();
  }

  /** Opens the event channel unless it is open. Loads the socket code on first use. */
  connect(): void {
    const { client } = this;
    const { address } = client;
    if (this.wantsChannel || !client.isAllowed || !address) return;
    this.wantsChannel = true;
    client.changeConnection({ status: "connecting", error: null });
    import("./live-channel.ts").then(
      ({ openLiveChannel }) => {
        if (!this.wantsChannel || this.channel) return;
        this.channel = openLiveChannel(address.socketOrigin, address.enginePath, {
          onWake: client.token.shared.onWake,
          connecting: () => client.changeConnection({ status: "connecting", error: client.connection.error }),
          synchronized: () => this.synchronized(),
          message: (message) => this.receive(message),
          lost: (error) => this.lost(error),
        });
      },
      (error: unknown) => {
        this.wantsChannel = undefined;
        this.lost(error);
      },
    );
  }

  /** Closes the event channel in any state. */
  disconnect(): void {
    this.wantsChannel = false;
    this.channel?.close();
    this.channel = undefined;
    this.client.changeConnection();
  }

  private use(userId: string): void {
    this.userId = userId;
    this.loader.use((signal) => this.requestToken(userId, signal));
  }

  private async requestToken(userId: string, signal: AbortSignal): Promise<IssuedToken> {
    if (!this.client.isAllowed) throw aborted();
    return requestPricingToken(this.client, userId, { signal, spender: this.client.spender });
  }

  private synchronized(): void {
    this.client.changeConnection({ status: "synchronized", error: null });
    if (this.hasGap) this.loader.refreshSoon();
    this.hasGap = true;
    this.client.events.emit("synchronized");
  }

  private lost(error: unknown): void {
    const { client } = this;
    this.hasGap = true;
    client.changeConnection({
      status: "disconnected",
      error: error instanceof Error ? error : client.connection.error,
    });
    if (error) client.events.emit("error", error);
  }

  private receive(message: unknown): void {
    const { events } = this.client;
    try {
      const read = readMessage(message);
      if (!read) return;
      const { event, details } = read;
      if ((event === "pricing_archived" || event === "service_disabled") && this.isAbout(details.serviceName)) {
        this.loader.refreshSoon();
      }
      events.emit(event, details);
    } catch (error) {
      events.emit("error", error);
    }
  }

  /** Returns true if the token has a feature of the service. The channel carries events of every organization. */
  private isAbout(serviceName: string): boolean {
    const prefix = `${serviceName}-`.toLowerCase();
    return Object.keys(this.client.token.getPayload()?.features ?? {}).some((id) => id.startsWith(prefix));
  }
}
