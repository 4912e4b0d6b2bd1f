import { aborted } from "../client/request.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import { backOffMs } from "./back-off.ts";

/** The last beat is at most this old while the stream counts as connected. */
export const CONNECTED_MS = 1_000;
/** A stream that sends nothing for this long is dead: the service sends at least two comments per second. */
const SILENCE_MS = 3_000;
const FIRST_WAIT_MS = 50;
/** Period over which the fastest delivery of a beat is kept, so that drifting clocks do not add up. */
const DELIVERY_WINDOW_MS = 30_000;

/** Receives what a stream says. */
export interface ChangeListener {
  /** Called for each beat; `isFirst` for the first one of a stream. */
  onBeat(isFirst: boolean): void;
  /** Contracts that may have changed; null: any. */
  onChange(contractIds: readonly string[] | null): void;
  /** The stream ended. Moments that it proved so far stay proven. */
  onEnd(): void;
  /** The service refused the key. */
  onRefused(): void;
  /** An attempt to connect failed. */
  onFailure(): void;
}

/** Follows the changes of contracts, and reconnects. Source: contract tokens-and-leases §5. */
export class ChangeStream {
  /** When the first beat of the current stream arrived, by `performance.now()`; Infinity without a stream. */
  firstBeatAt = Infinity;
  /** Every commit before this moment has been received, by `performance.now()`. */
  provenAt = -Infinity;
  private readonly closed = new AbortController();
  private readonly request: { url: string; apiKey: string; fetch: typeof fetch | undefined };
  private readonly listener: ChangeListener;
  private delivery = createDelivery();

  constructor(request: { url: string; apiKey: string; fetch: typeof fetch | undefined }, listener: ChangeListener) {
    this.request = request;
    this.listener = listener;
  }

  isConnected(now: number): boolean {
    return now - this.provenAt <= CONNECTED_MS && this.firstBeatAt !== Infinity;
  }

  /** Connects until closed. Never rejects. */
  async run(): Promise<void> {
    for (let failures = 0; !this.closed.signal.aborted; failures += 1) {
      const beat = await this.follow().catch(() => false);
      if (beat) failures = 0;
      this.end();
      if (this.closed.signal.aborted) return;
      this.listener.onFailure();
      await pause(backOffMs(failures, FIRST_WAIT_MS), this.closed.signal);
    }
  }

  close(): void {
    this.closed.abort();
    this.end();
  }

  private end(): void {
    if (this.firstBeatAt === Infinity) return;
    this.listener.onEnd();
    this.firstBeatAt = Infinity;
  }

  /** Follows one stream to its end. Returns true if it had a beat. */
  private async follow(): Promise<boolean> {
    const { url, apiKey } = this.request;
    const controller = new AbortController();
    const abort = () => controller.abort();
    this.closed.signal.addEventListener("abort", abort);
    let silence = setTimeout(abort, SILENCE_MS);
    let hadBeat = false;
    this.delivery = createDelivery();
    try {
      const response = await (this.request.fetch ?? fetch)(url, {
        headers: { "x-api-key": apiKey, accept: "text/event-stream" },
        credentials: "omit",
        signal: controller.signal,
      });
      if (!response.ok || response.body === null) {
        if (response.status === 401 || response.status === 403) this.listener.onRefused();
        return false;
      }
      const decoder = new TextDecoder();
      let text = "";
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || controller.signal.aborted) return hadBeat;
        clearTimeout(silence);
        silence = setTimeout(abort, SILENCE_MS);
        const messages = (text + decoder.decode(value, { stream: true })).split("\n\n");
        text = messages.pop() ?? "";
        for (const message of messages) hadBeat = this.receive(message) || hadBeat;
      }
    } finally {
      clearTimeout(silence);
      this.closed.signal.removeEventListener("abort", abort);
      controller.abort();
    }
  }

  /** Returns true for a beat. */
  private receive(message: string): boolean {
    const [, event, data = ""] = /^event: (beat|change)\ndata: (.*)$/.exec(message) ?? [];
    if (event === undefined) return false;
    const { at, contracts } = JSON.parse(data) as { at?: string; contracts?: string[] | null };
    if (event === "change") {
      this.listener.onChange(contracts ?? null);
      return false;
    }
    const now = performance.now();
    const isFirst = this.firstBeatAt === Infinity;
    if (isFirst) this.firstBeatAt = now;
    // The fastest delivery relates both clocks. So a beat that was delayed on its way counts as old as it is.
    const sentAt = Date.parse(at ?? "");
    this.provenAt = Math.max(this.provenAt, Math.min(now, sentAt + this.delivery.fastest(now - sentAt, now)));
    this.listener.onBeat(isFirst);
    return true;
  }
}

/** Keeps the least difference of the last 30 to 60 seconds. */
function createDelivery(): { fastest(difference: number, now: number): number } {
  let before = Infinity;
  let current = Infinity;
  let startedAt = -Infinity;
  return {
    fastest: (difference, now) => {
      if (now - startedAt > DELIVERY_WINDOW_MS) {
        before = current;
        current = Infinity;
        startedAt = now;
      }
      current = Math.min(current, difference);
      return Math.min(before, current);
    },
  };
}

/** Waits, or stops waiting when the signal aborts. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}

/**
 * Settles like `work`, or rejects when the signal aborts first.
 * @throws ServiceRequestError: the signal's reason if it is one, otherwise with the code ABORTED.
 */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  if (signal.aborted) {
    // Nobody waits for the work any more, so its failure must not end the process.
    work.catch(() => {});
    throw reasonOf(signal);
  }
  let abort = () => {};
  const stopped = new Promise<never>((_, reject) => {
    abort = () => reject(reasonOf(signal));
    signal.addEventListener("abort", abort);
  });
  return Promise.race([work, stopped]).finally(() => signal.removeEventListener("abort", abort));
}

const reasonOf = ({ reason }: AbortSignal): ServiceRequestError =>
  reason instanceof ServiceRequestError ? reason : aborted();
