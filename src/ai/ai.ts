/**
 * Meters calls of language models through the AI SDK (`faregate/ai`). Types only of `@ai-sdk/provider`; the client comes from the
 * application.
 */
import type {
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3Middleware,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
} from "@ai-sdk/provider";
import { LIMIT_FINISH, metadataOf } from "./limit.ts";
import { explainLimit, Meter, type MeterClient, type MeterOptions } from "./meter.ts";

export { LIMIT_FINISH, LimitReachedError, limitOf } from "./limit.ts";
export type { Denial } from "../client/back/denial.ts";
export type { MeterClient, MeterOptions } from "./meter.ts";

const MAX_OUTPUT_TOKENS = 4_096;

/**
 * Returns a middleware that holds tokens before a call, and settles with the provider's usage. It reports while the answer
 * streams. Sends one call before the first token. Source: contract usage-records §3.
 */
export function meterTokens(client: MeterClient, options: MeterOptions): LanguageModelV3Middleware {
  const open = async (params: LanguageModelV3CallOptions) => {
    const asked = params.maxOutputTokens ?? options.maxOutputTokens ?? MAX_OUTPUT_TOKENS;
    const meter = await Meter.open(client, options, JSON.stringify([params.prompt, params.tools ?? []]), asked);
    return { meter, lowered: { ...params, maxOutputTokens: Math.min(asked, meter.allowed) } };
  };
  return {
    specificationVersion: "v3",
    wrapGenerate: async ({ model, params }) => {
      const { meter, lowered } = await open(params);
      const result = await Promise.resolve(model.doGenerate(lowered)).catch(async (error: unknown) => {
        await meter.settle(undefined, true);
        throw error;
      });
      await meter.admits(textOf(result.content));
      await meter.settle(result.usage);
      if (!meter.isLowered || result.finishReason.unified !== "length") return result;
      return {
        ...result,
        finishReason: { unified: "other", raw: LIMIT_FINISH },
        providerMetadata: metadataOf(await explainLimit(client, options, meter.rest), result.providerMetadata),
      };
    },
    wrapStream: async ({ model, params }) => {
      const { meter, lowered } = await open(params);
      const result = await Promise.resolve(model.doStream(lowered)).catch(async (error: unknown) => {
        await meter.settle(undefined, true);
        throw error;
      });
      return { ...result, stream: metered(result.stream, meter, { client, options }) };
    },
  };
}

type Part = LanguageModelV3StreamPart;

const textOf = (content: readonly LanguageModelV3Content[]): string =>
  content.map((part) => ("text" in part ? part.text : "input" in part ? part.input : "")).join("");

/** Passes the parts on while the hold covers them. Settles at the end, on an error, and when nobody reads on. */
function metered(
  source: ReadableStream<Part>,
  meter: Meter,
  { client, options }: { client: MeterClient; options: MeterOptions },
): ReadableStream<Part> {
  const reader = source.getReader();
  const open = new Map<string, "text-end" | "reasoning-end" | "tool-input-end">();
  let hasFinished = false;
  const finishAtLimit = async (): Promise<Part[]> => {
    await meter.settle(undefined);
    void reader.cancel().catch(() => {});
    const ends = [...open].map(([id, type]): Part => ({ type, id }));
    return [...ends, { type: "finish", ...(await limited()), usage: estimatedUsage(meter) }];
  };
  const limited = async (part?: Extract<Part, { type: "finish" }>) => ({
    finishReason: { unified: "other", raw: LIMIT_FINISH } as const,
    providerMetadata: metadataOf(await explainLimit(client, options, meter.rest), part?.providerMetadata),
  });
  /** Returns the parts to pass on instead of one; undefined after the last. */
  const next = async (): Promise<{ parts: Part[]; isLast: boolean }> => {
    const { done, value: part } = await reader.read();
    if (done) {
      if (!hasFinished) await meter.settle(undefined);
      return { parts: [], isLast: true };
    }
    if ("delta" in part && !(await meter.admits(part.delta))) return { parts: await finishAtLimit(), isLast: true };
    if (part.type.endsWith("-start") && "id" in part) open.set(part.id ?? "", endOf(part.type));
    else if (part.type.endsWith("-end") && "id" in part) open.delete(part.id ?? "");
    if (part.type !== "finish") return { parts: [part], isLast: false };
    hasFinished = true;
    await meter.settle(part.usage);
    const isEnded = meter.isLowered && part.finishReason.unified === "length";
    return { parts: [isEnded ? { ...part, ...(await limited(part)) } : part], isLast: false };
  };
  return new ReadableStream<Part>({
    async pull(controller) {
      try {
        const { parts, isLast } = await next();
        for (const part of parts) controller.enqueue(part);
        if (isLast) controller.close();
      } catch (error) {
        await meter.settle(undefined);
        controller.error(error);
      }
    },
    async cancel(reason) {
      await Promise.all([meter.settle(undefined), reader.cancel(reason).catch(() => {})]);
    },
  });
}

const endOf = (start: string) =>
  start === "text-start" ? "text-end" : start === "reasoning-start" ? "reasoning-end" : "tool-input-end";

/** Usage of an answer that was ended before the provider told its own. */
function estimatedUsage(meter: Meter): LanguageModelV3Usage {
  const { input, output } = meter;
  return {
    inputTokens: { total: input, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: output, text: undefined, reasoning: undefined },
  };
}
