import type { LanguageModelV3Usage } from "@ai-sdk/provider";
import type { Faregate } from "../client/client.ts";
import { extensionMs, type HoldAnswer, type SettleAnswer } from "../client/back/holds.ts";
import type { Spender } from "../client/back/budgets.ts";
import { type Denial, explainDenial } from "../client/back/denial.ts";
import { LimitReachedError } from "./limit.ts";

/** Rest of the limits, as answers about a hold say it. */
type Rest = Pick<Denial, "remaining" | "resetAt" | "budget">;

/** The part of a Faregate client that a meter calls. */
export type MeterClient = Pick<Faregate, "usage"> & Partial<Pick<Faregate, "features">>;

/** Whom a meter charges, for what, and how. */
export interface MeterOptions {
  readonly userId: string;
  /** `{service}-{feature}`. */
  readonly featureId: string;
  /** `{service}-{limit}` that tokens count towards. */
  readonly limitId: string;
  /** Units of input and output tokens, at the rates of the pricing. Default: each token counts 1. */
  readonly units?: { readonly input: string; readonly output: string } | undefined;
  /** Amounts of the feature's other limits, per call. */
  readonly consumption?: Readonly<Record<string, number>> | undefined;
  /** Path of who spends, such as `grace/chat-7`. */
  readonly spender?: Spender | undefined;
  /** Most output tokens of a call that names none. Default: 4,096. */
  readonly maxOutputTokens?: number | undefined;
  /** Estimates the input tokens of a prompt from its JSON text. Default: a token per 3 characters. */
  readonly countInput?: ((prompt: string) => number) | undefined;
  /** Milliseconds between reports of a running answer, at most a third of `duration`. Default: 2,000. */
  readonly reportEveryMs?: number | undefined;
  /** ISO 8601: how long a hold outlives a process that dies. Default: `PT1M`. */
  readonly duration?: string | undefined;
  /** Receives what failed after the answer began. The answer goes on. Default: ignored. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** Keeps a Worker alive until the settlement is answered. */
  readonly waitUntil?: ((settled: Promise<unknown>) => void) | undefined;
}

const durationOf = ({ duration = "PT1M" }: MeterOptions) => duration;

/** Tokens that count. */
interface Tokens {
  readonly input: number;
  readonly output: number;
}

/** Units, or the plain amount, that tokens cost. */
const costOf = ({ limitId, units, consumption }: MeterOptions, { input, output }: Tokens) => ({
  ...consumption,
  [limitId]: units === undefined ? input + output : { [units.input]: input, [units.output]: output },
});

/** Returns why a call is denied or ended, and what makes room for `amounts`. Default: one more of the limit. */
export const explainLimit = (
  { features }: MeterClient,
  { userId, featureId, limitId }: MeterOptions,
  rest: Rest,
  amounts: Readonly<Record<string, number>> = { [limitId]: 1 },
): Promise<Denial> => explainDenial(features, { userId, featureId, amounts }, rest);

/** Meters one call of a model: holds before it, reports while it answers, and settles at its end. */
export class Meter {
  /** Output tokens that the hold covers; infinite where nothing is held. */
  allowed = Infinity;
  /** True if the hold covers less than was asked for. */
  isLowered = false;
  /** The last answer about the hold. */
  rest: Rest = { remaining: null, resetAt: null };
  private readonly client: MeterClient;
  private readonly options: MeterOptions;
  /** Estimate of the input tokens. */
  readonly input: number;
  private holdId: string | undefined;
  private characters = 0;
  private deltas = 0;
  private reported = 0;
  private keptAt = 0;
  private isGone = false;
  private running: Promise<unknown> = Promise.resolve();
  private timer: ReturnType<typeof setInterval> | undefined;
  private end: Promise<void> | undefined;

  private constructor(client: MeterClient, options: MeterOptions, input: number) {
    this.client = client;
    this.options = options;
    this.input = input;
  }

  /**
   * Takes a hold for the prompt and as many output tokens as are left. Sends one call unless hardly anything is left.
   * @throws LimitReachedError if not even one is left.
   */
  static async open(client: MeterClient, options: MeterOptions, prompt: string, asked: number): Promise<Meter> {
    const input = Math.ceil(options.countInput?.(prompt) ?? prompt.length / 3);
    const meter = new Meter(client, options, input);
    if (await meter.take(asked, true)) {
      meter.isLowered = meter.allowed < asked;
      if (meter.allowed < 1) {
        await meter.settleOnce(undefined, true);
        // Either it covers one token after all, because rates are only estimated here, or the refusal names the budget.
        await meter.take(1, false);
      }
      const everyMs = Math.min(options.reportEveryMs ?? 2_000, extensionMs(durationOf(options)));
      meter.timer = setInterval(() => void meter.report().catch(() => {}), everyMs);
    }
    return meter;
  }

  /**
   * Takes a hold for the prompt and an answer. Returns false where nothing is held, because nothing is counted.
   * @throws LimitReachedError
   */
  private async take(output: number, partial: boolean): Promise<boolean> {
    const { client, options, input } = this;
    const answer = await client.usage.hold(options.userId, options.featureId, {
      consumption: costOf(options, { input, output }),
      duration: durationOf(options),
      partial,
      spender: options.spender,
    });
    this.rest = answer;
    if (answer.error !== null) throw new Error(answer.error.message);
    if (!answer.eval) {
      const needed = { ...options.consumption, [options.limitId]: this.leastCost(answer, output) };
      throw new LimitReachedError(await explainLimit(client, options, answer, needed));
    }
    if (answer.hold === null) return false;
    this.holdId = answer.hold.id;
    this.allowed = this.outputIn(answer, output);
    return true;
  }

  /**
   * Returns the cost of the prompt and one output token, from that of `output` tokens. As below, an output token is taken to
   * cost at least as much as an input token.
   */
  private leastCost({ amounts }: Pick<HoldAnswer, "amounts">, output: number): number {
    const least = this.input + 1;
    const cost = amounts?.[this.options.limitId];
    return cost === undefined ? least : (cost * least) / Math.max(least, this.input + output);
  }

  /**
   * Returns the output tokens that a partial hold covers. With units their rates are unknown here: an output token is
   * taken to cost at least as much as an input token, which errs towards fewer tokens.
   */
  private outputIn({ amounts, hold }: Pick<HoldAnswer, "amounts" | "hold">, asked: number): number {
    const { limitId } = this.options;
    const covered = hold?.amounts?.[limitId];
    const cost = amounts?.[limitId] ?? this.input + asked;
    if (covered === undefined || covered >= cost) return asked;
    const forInput = (cost * this.input) / (this.input + asked);
    return Math.floor((asked * (covered - forInput)) / (cost - forInput));
  }

  /** Output tokens so far, at least one per delta. */
  get output(): number {
    return Math.min(this.allowed, Math.max(this.deltas, Math.ceil(this.characters / 4)));
  }

  /** Returns true if the hold covers one more delta, or could be grown for it. */
  async admits(delta: string): Promise<boolean> {
    if (this.isGone) return false;
    const needed = Math.max(this.deltas + 1, Math.ceil((this.characters + delta.length) / 4));
    if (needed > this.allowed && !(await this.grow(needed))) return false;
    this.characters += delta.length;
    if (delta !== "") this.deltas += 1;
    return true;
  }

  private async grow(needed: number): Promise<boolean> {
    const more = Math.max(needed - this.allowed, 256);
    await this.running;
    const { input, allowed } = this;
    const answer = await this.keep({ input: 0, output: more }, { input, output: allowed });
    if (answer === undefined) return false;
    const held = answer.hold.amounts[this.options.limitId] ?? 0;
    this.allowed += this.options.units === undefined ? Math.floor(held) : held > 0 ? more : 0;
    return needed <= this.allowed;
  }

  /**
   * Reports the total so far, also an unchanged one where the hold would end. Reports follow each other; a lost one is made up
   * for by the next.
   */
  private report(): Promise<unknown> {
    const { input, output } = this;
    const isDue = performance.now() - this.keptAt >= extensionMs(durationOf(this.options));
    if (output === this.reported && output > 0 && !isDue) return this.running;
    this.reported = output;
    return (this.running = this.running.then(() => this.keep(undefined, { input, output })));
  }

  private async keep(more: Tokens | undefined, spent: Tokens): Promise<SettleAnswer | undefined> {
    if (this.holdId === undefined || this.end !== undefined) return undefined;
    const { options } = this;
    try {
      const answer = await this.client.usage.keep(this.holdId, {
        spent: costOf(options, spent),
        ...(more === undefined
          ? {}
          : { amounts: { ...zeros(options), ...costOf({ ...options, consumption: {} }, more) } }),
        for: durationOf(options),
      });
      this.rest = answer;
      this.keptAt = performance.now();
      if (!answer.eval) this.isGone = true;
      return answer.eval ? answer : undefined;
    } catch (error) {
      // The hold has ended, or is gone with its limit.
      if (isRefusal(error)) this.isGone = true;
      else options.onError?.(error);
      return undefined;
    }
  }

  /** Ends the hold with the provider's usage, or where there is none with what was emitted. Does so once. */
  settle(usage: LanguageModelV3Usage | undefined, isUnused = false): Promise<void> {
    clearInterval(this.timer);
    this.end ??= this.running
      .then(() => this.settleOnce(usage, isUnused))
      .catch((error: unknown) => this.options.onError?.(error));
    this.options.waitUntil?.(this.end);
    return this.end;
  }

  private async settleOnce(usage: LanguageModelV3Usage | undefined, isUnused: boolean): Promise<void> {
    const { holdId, options } = this;
    if (holdId === undefined) return;
    if (isUnused) return this.client.usage.release(holdId);
    const input = tokensOf(usage?.inputTokens);
    const output = tokensOf(usage?.outputTokens);
    const estimated = input === undefined || output === undefined;
    const total = { input: input ?? this.input, output: output ?? this.output };
    const answer = await this.client.usage.settle(holdId, costOf(options, total), { estimated });
    if (answer.eval) return;
    // More than is left: what the hold covers is counted in any case.
    const { amounts, counted } = answer.hold;
    const covered = Object.entries(amounts).map(([id, held]) => [id, held + (counted?.[id] ?? 0)] as const);
    await this.client.usage.settle(holdId, Object.fromEntries(covered), { estimated });
  }
}

/** Returns a provider's total; undefined for one that is no amount. Some providers report NaN where they have none. */
const tokensOf = (tokens: { readonly total: number | undefined } | undefined): number | undefined =>
  tokens?.total !== undefined && Number.isFinite(tokens.total) && tokens.total >= 0 ? tokens.total : undefined;

const zeros = ({ consumption = {} }: MeterOptions) =>
  Object.fromEntries(Object.keys(consumption).map((id) => [id, 0] as const));

const isRefusal = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "status" in error && (error.status === 404 || error.status === 409);
