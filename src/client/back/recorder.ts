import { ServiceRequestError } from "../service-request-error.ts";
import type { ItemVerdict, RecordedUsage, UsageItem } from "./usage-items.ts";

/** Options of a recorder. */
export interface RecorderOptions {
  /** Items per batch, at most 1,000. Default: 500. */
  maxItems?: number | undefined;
  /** Longest wait of an item for others, in milliseconds. Default: 1,000. */
  maxDelayMs?: number | undefined;
  /** Items in memory from which `add` blocks. Default: 10,000. */
  maxWaiting?: number | undefined;
  /** Receives the verdict of each item. */
  onVerdict?: ((item: UsageItem, verdict: ItemVerdict) => void) | undefined;
  /** Receives the error of each failed batch. Its items stay, and are sent again. */
  onError?: ((error: unknown, items: readonly UsageItem[]) => void) | undefined;
}

/** Items that a recorder could not hand in. */
export class UnrecordedUsageError extends Error {
  override readonly name = "UnrecordedUsageError";
  /** Each with its key: recorded again with it, they count once. */
  readonly items: readonly UsageItem[];

  /** @internal */
  constructor(items: readonly UsageItem[], cause: unknown) {
    super(`${items.length} items of usage are not recorded`, { cause });
    this.items = items;
  }
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Collects items and records them in batches, by number and time. A batch that fails is sent again with the same keys until
 * it is recorded, so no item is lost and none counts twice. Call `close` before the process ends.
 */
export class UsageRecorder {
  private readonly send: (items: readonly UsageItem[]) => Promise<RecordedUsage>;
  private readonly options: RecorderOptions;
  private items: UsageItem[] = [];
  private refused: UsageItem[] = [];
  private lastError: unknown;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sending: Promise<void> | undefined;
  private roomWaiters: (() => void)[] = [];
  private endPause: (() => void) | undefined;
  private isClosed = false;
  private givesUpAt = Infinity;
  private deadline: Promise<void> | undefined;

  /** @internal */
  constructor(send: (items: readonly UsageItem[]) => Promise<RecordedUsage>, options: RecorderOptions) {
    const { maxItems = 500 } = options;
    if (!Number.isInteger(maxItems) || maxItems < 1 || maxItems > 1000) {
      throw new Error("maxItems must be a whole number from 1 to 1000");
    }
    this.send = send;
    this.options = options;
  }

  /**
   * Accepts an item. Resolves as soon as there is room for it: await it to slow down with the service.
   * @throws Error after `close`: the item is not accepted.
   */
  async add(item: UsageItem): Promise<void> {
    const { maxItems = 500, maxDelayMs = 1000, maxWaiting = 10_000 } = this.options;
    while (!this.isClosed && this.items.length >= maxWaiting) {
      await new Promise<void>((resolve) => this.roomWaiters.push(resolve));
    }
    if (this.isClosed) throw new Error("The recorder is closed");
    this.items.push(item.key === undefined ? { ...item, key: crypto.randomUUID() } : item);
    if (this.items.length >= maxItems) void this.start();
    else this.timer ??= setTimeout(() => void this.start(), maxDelayMs);
  }

  /**
   * Sends all items, and resolves when they are recorded.
   * @throws UnrecordedUsageError with the items that the service refuses to read, or that are left when a deadline passes.
   */
  async flush(): Promise<void> {
    while (this.items.length > 0 && performance.now() < this.givesUpAt) {
      await Promise.race([this.start(), ...(this.deadline === undefined ? [] : [this.deadline])]);
    }
    const left = [...this.refused, ...this.items];
    this.refused = [];
    if (left.length > 0) throw new UnrecordedUsageError(left, this.lastError);
  }

  /**
   * Accepts no more items, and sends all of them. Gives up after `deadlineMs`. Default: 10,000.
   * @throws UnrecordedUsageError with the items that are left.
   */
  async close({ deadlineMs = 10_000 }: { deadlineMs?: number } = {}): Promise<void> {
    this.isClosed = true;
    this.givesUpAt = performance.now() + deadlineMs;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // A batch in flight may outlast the deadline: its items are reported, and count once if they are recorded again.
    this.deadline = new Promise((resolve) => (timer = setTimeout(resolve, deadlineMs)));
    this.makeRoom();
    this.endPause?.();
    await this.flush().finally(() => clearTimeout(timer));
  }

  private start(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.sending ??= this.sendAll().finally(() => (this.sending = undefined));
    return this.sending;
  }

  private async sendAll(): Promise<void> {
    let { maxItems: size = 500 } = this.options;
    for (let pauseMs = FIRST_PAUSE_MS; this.items.length > 0 && performance.now() < this.givesUpAt;) {
      const batch = this.items.slice(0, size);
      try {
        const { items: verdicts } = await this.send(batch);
        this.items.splice(0, batch.length);
        this.makeRoom();
        for (const [i, verdict] of verdicts.entries()) this.tell(batch[i], verdict);
        pauseMs = FIRST_PAUSE_MS;
        size = this.options.maxItems ?? 500;
      } catch (error) {
        this.lastError = error;
        try {
          this.options.onError?.(error, batch);
        } catch {
          // An error of the caller's own must not stop the recorder.
        }
        // Any other error was thrown before sending, by an item that JSON cannot represent.
        const isUnreadable = !(error instanceof ServiceRequestError) || [400, 413, 422].includes(error.status ?? 0);
        if (isUnreadable) {
          // Halves the batch until the item that cannot be sent or read stands alone.
          if (batch.length === 1) this.refused.push(...this.items.splice(0, 1));
          size = Math.max(1, batch.length >> 1);
        } else {
          await this.pause(pauseMs);
          pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
        }
      }
    }
  }

  private tell(item: UsageItem | undefined, verdict: ItemVerdict): void {
    try {
      if (item !== undefined) this.options.onVerdict?.(item, verdict);
    } catch {
      // As above.
    }
  }

  private makeRoom(): void {
    const waiters = this.roomWaiters;
    this.roomWaiters = [];
    for (const resolve of waiters) resolve();
  }

  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.endPause = undefined;
        resolve();
      };
      const timer = setTimeout(end, Math.min(milliseconds, Math.max(0, this.givesUpAt - performance.now())));
      this.endPause = end;
    });
  }
}
