import { streamText, generateText, wrapLanguageModel } from "ai";
import { convertArrayToReadableStream, MockLanguageModelV3 } from "ai/test";
import type { LanguageModelV3StreamPart, LanguageModelV3Usage } from "@ai-sdk/provider";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { limitOf, LIMIT_FINISH, LimitReachedError, meterTokens, type MeterOptions } from "../../src/ai/ai.ts";
import { Faregate } from "../../src/client/client.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { upload } from "../support/contracting.ts";
import { inProcess, ORIGIN } from "../support/in-process.ts";
import { CREDITS as LIMIT, creditsOf, movementsOf, scribePricing, subscribe } from "../support/scribe.ts";

/* The meter of language models, over the mock models of the AI SDK. */

const PRICING = scribePricing(1000, "  MINI: { price: 1, features: null, usageLimits: { credits: { value: 30 } } }");

let api: TestApi;
let key: string;
/** Calls to the service, by method and path. */
const calls: string[] = [];
/** End of the hold that was reported last. */
let keptUntil = 0;
let client: Faregate;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, PRICING);
  const { fetch } = inProcess(api);
  client = new Faregate({
    url: ORIGIN,
    apiKey: key,
    fetch: async (input, init) => {
      calls.push(`${init?.method} ${String(input).replace(ORIGIN, "")}`);
      const answer = await fetch(input, init);
      if (String(input).includes("keep=true") && answer.ok) {
        keptUntil = Date.parse((await answer.clone().json()).hold.until);
      }
      return answer;
    },
  });
});
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

let users = 0;
async function subscribed(plan = "PRO"): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await subscribe(api, userId, { plan });
  calls.length = 0;
  return userId;
}

const INPUT = 7;
const usage = (input: number | undefined, output: number | undefined): LanguageModelV3Usage => ({
  inputTokens: { total: input, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: output, text: undefined, reasoning: undefined },
});
const stop = { unified: "stop", raw: "stop" } as const;
const words = Array.from({ length: 10 }, (_, place) => `word${place} `);
const textParts = (texts: readonly string[]): LanguageModelV3StreamPart[] => [
  { type: "stream-start", warnings: [] },
  { type: "text-start", id: "1" },
  ...texts.map((delta): LanguageModelV3StreamPart => ({ type: "text-delta", id: "1", delta })),
  { type: "text-end", id: "1" },
];
const finish = (of = usage(INPUT, 25)): LanguageModelV3StreamPart => ({
  type: "finish",
  usage: of,
  finishReason: stop,
});

function modelOf(parts: readonly LanguageModelV3StreamPart[], options: Partial<MeterOptions> & { userId: string }) {
  const inner = new MockLanguageModelV3({
    doStream: async () => ({ stream: convertArrayToReadableStream([...parts]) }),
  });
  const middleware = meterTokens(client, {
    featureId: "scribe-write",
    limitId: LIMIT,
    countInput: () => INPUT,
    maxOutputTokens: 100,
    ...options,
  });
  return { inner, model: wrapLanguageModel({ model: inner, middleware }) };
}
const levelOf = (userId: string) => creditsOf(api, userId);
const openHolds = async (userId: string) => (await client.contracts.holds(userId)).data.length;
const estimatedOf = async (userId: string) => (await movementsOf(api, userId)).map(({ estimated }) => estimated);

describe("a stream", () => {
  test("is passed on unchanged, and counted by the provider's usage", async () => {
    const userId = await subscribed();
    const parts = [...textParts(words), finish()];
    const { model, inner } = modelOf(parts, { userId });
    const { stream } = await model.doStream({ prompt: [] });
    expect(calls).toEqual([expect.stringContaining("hold=PT1M")]);
    const seen: unknown[] = [];
    for await (const part of stream) seen.push(part);
    expect(seen).toEqual(parts);
    expect(inner.doStreamCalls[0]?.maxOutputTokens).toBe(100);
    expect([await levelOf(userId), await openHolds(userId)]).toEqual([[INPUT + 25, 0], 0]);
    expect(await estimatedOf(userId)).toEqual([undefined]);
  });

  test.each([true, false])(
    "aborted after any chunk counts what was emitted, and holds nothing (by signal: %s)",
    async (bySignal) => {
      for (let after = 0; after <= words.length; after += 1) {
        const userId = await subscribed();
        const { model } = modelOf([...textParts(words), finish()], { userId });
        const stop = new AbortController();
        const { stream } = await model.doStream({ prompt: [], abortSignal: stop.signal });
        const reader = stream.getReader();
        let emitted = 0;
        while (emitted < after) if ((await reader.read()).value?.type === "text-delta") emitted += 1;
        if (bySignal) stop.abort();
        await reader.cancel();
        const [consumed = NaN, held] = await levelOf(userId);
        expect(consumed, `after ${after}`).toBeGreaterThanOrEqual(INPUT + after);
        expect(consumed).toBeLessThanOrEqual(INPUT + 100);
        expect([held, await openHolds(userId)]).toEqual([0, 0]);
        expect(await estimatedOf(userId)).toEqual([true]);
      }
    },
  );

  test("that fails counts what was emitted, and fails on", async () => {
    const userId = await subscribed();
    const inner = new MockLanguageModelV3({
      doStream: async () => ({
        stream: new ReadableStream({
          pull(controller) {
            controller.enqueue({ type: "text-start", id: "1" });
            controller.enqueue({ type: "text-delta", id: "1", delta: "Hello" });
            controller.error(new Error("The provider is gone"));
          },
        }),
      }),
    });
    const options = { userId, featureId: "scribe-write", limitId: LIMIT, countInput: () => INPUT };
    const model = wrapLanguageModel({ model: inner, middleware: meterTokens(client, options) });
    const { stream } = await model.doStream({ prompt: [] });
    await expect(
      (async () => {
        for await (const _ of stream);
      })(),
    ).rejects.toThrow("The provider is gone");
    expect(await openHolds(userId)).toBe(0);
  });

  test.each([undefined, NaN, -1])("without usage, as by %s, counts what was emitted", async (none) => {
    const userId = await subscribed();
    const { model } = modelOf([...textParts(words), finish(usage(none, none))], { userId });
    const { text } = streamText({ model, prompt: "Write" });
    expect(await text).toBe(words.join(""));
    const [consumed = NaN, held] = await levelOf(userId);
    expect(consumed).toBeGreaterThanOrEqual(INPUT + words.length);
    expect(held).toBe(0);
    expect(await estimatedOf(userId)).toEqual([true]);
  });

  test("reports while it runs, and the settlement corrects estimates", async () => {
    const userId = await subscribed();
    let next = 0;
    const parts = [...textParts(words), finish(usage(INPUT, 3))];
    const inner = new MockLanguageModelV3({
      doStream: async () => ({
        stream: new ReadableStream<LanguageModelV3StreamPart>({
          async pull(controller) {
            await new Promise((wait) => setTimeout(wait, 20));
            const part = parts[next];
            next += 1;
            if (part === undefined) controller.close();
            else controller.enqueue(part);
          },
        }),
      }),
    });
    const options = { userId, featureId: "scribe-write", limitId: LIMIT, countInput: () => INPUT, reportEveryMs: 25 };
    const { stream } = await wrapLanguageModel({ model: inner, middleware: meterTokens(client, options) }).doStream({
      prompt: [],
    });
    for await (const _ of stream);
    expect(calls.filter((call) => call.includes("keep=true")).length).toBeGreaterThan(0);
    expect(await levelOf(userId)).toEqual([INPUT + 3, 0]);
  });
});

describe("a pause longer than the hold", () => {
  const start = Date.parse("2025-06-15T10:00:00.000Z");
  afterEach(() => api.setNow(new Date(start)));

  test.each([10, 60_000])("in mid-answer loses nothing, with reports every %i ms", async (reportEveryMs) => {
    const userId = await subscribed();
    let clock = start;
    const pause = async () => {
      for (let passed = 0; passed < 3; passed += 1) {
        api.setNow(new Date((clock += 900)));
        await expect.poll(() => keptUntil, { timeout: 10_000 }).toBe(clock + 1_000);
      }
    };
    const rest = [...textParts(words), finish()];
    const inner = new MockLanguageModelV3({
      doStream: async () => ({
        stream: new ReadableStream<LanguageModelV3StreamPart>(
          {
            async pull(controller) {
              if (rest.length === 5) await pause();
              const part = rest.shift();
              if (part === undefined) controller.close();
              else controller.enqueue(part);
            },
          },
          { highWaterMark: 0 },
        ),
      }),
    });
    const failures: unknown[] = [];
    const middleware = meterTokens(client, {
      userId,
      featureId: "scribe-write",
      limitId: LIMIT,
      countInput: () => INPUT,
      duration: "PT1S",
      reportEveryMs,
      onError: (error) => failures.push(error),
    });
    const { stream } = await wrapLanguageModel({ model: inner, middleware }).doStream({ prompt: [] });
    for await (const _ of stream);
    expect(failures).toEqual([]);
    expect(await levelOf(userId)).toEqual([INPUT + 25, 0]);
  });
});

describe("where little is left", () => {
  test("the model is asked for as many tokens as fit, in one call", async () => {
    const userId = await subscribed("MINI");
    const { model, inner } = modelOf(
      [
        ...textParts(words.slice(0, 2)),
        { type: "finish", usage: usage(INPUT, 23), finishReason: { unified: "length", raw: "length" } },
      ],
      { userId },
    );
    const result = streamText({ model, prompt: "Write" });
    await result.consumeStream();
    expect(inner.doStreamCalls[0]?.maxOutputTokens).toBe(30 - INPUT);
    expect(calls.filter((call) => call.includes("hold="))).toHaveLength(1);
    expect(await result.finishReason).toBe("other");
    expect(await result.rawFinishReason).toBe(LIMIT_FINISH);
    expect(limitOf(await result.providerMetadata)).toMatchObject({
      reason: "LIMIT_REACHED",
      unlock: { target: { plan: "PRO" } },
    });
    expect(await levelOf(userId)).toEqual([30, 0]);
  });

  test("a model that goes on is cut, and never counts beyond the hold", async () => {
    const userId = await subscribed("MINI");
    const many = Array.from({ length: 60 }, (_, place) => `${place % 10}`);
    const { model } = modelOf([...textParts(many), finish(usage(INPUT, 60))], { userId });
    const result = streamText({ model, prompt: "Write" });
    await result.consumeStream();
    expect(await result.text).toHaveLength(30 - INPUT);
    expect(await result.rawFinishReason).toBe(LIMIT_FINISH);
    expect(await levelOf(userId)).toEqual([30, 0]);
    expect(await openHolds(userId)).toBe(0);
  });

  test("nothing is sent to the model, and the error says what helps", async () => {
    const userId = await subscribed("MINI");
    await api.call("POST", `/features/${userId}/scribe-write`, { key, body: { [LIMIT]: 28 } });
    const { model, inner } = modelOf([...textParts(words), finish()], { userId });
    const refused = await model.doStream({ prompt: [] }).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(LimitReachedError);
    expect(refused).toMatchObject({ limit: { reason: "LIMIT_REACHED", unlock: { target: { plan: "PRO" } } } });
    expect(inner.doStreamCalls).toEqual([]);
    expect([await levelOf(userId), await openHolds(userId)]).toEqual([[28, 0], 0]);
  });

  test("a purchase is named only if the prompt fits into it, at the rates of its units", async () => {
    const units = { input: "in", output: "out" };
    const targetFor = async (input: number) => {
      const { model } = modelOf([], { userId: await subscribed("MINI"), units, countInput: () => input });
      return model.doStream({ prompt: [] }).then(
        () => undefined,
        (error: LimitReachedError) => error.limit.unlock?.target?.plan,
      );
    };
    // PRO has 1,000 credits, an input token costs one, and an output token two.
    expect([await targetFor(998), await targetFor(999)]).toEqual(["PRO", undefined]);
  });

  test("a budget is named, and no purchase", async () => {
    const userId = await subscribed();
    await api.call("PUT", `/contracts/${userId}/budgets/chat`, {
      key,
      body: { limit: LIMIT, spender: "*/*", amount: 5, window: "life" },
    });
    const { model } = modelOf([...textParts(words), finish()], { userId, spender: "ada/chat-1", countInput: () => 5 });
    await expect(model.doStream({ prompt: [] })).rejects.toMatchObject({
      limit: { reason: "BUDGET_REACHED", budget: { name: "chat", spender: "ada/chat-1", amount: 5, remaining: 5 } },
    });
    expect(await openHolds(userId)).toBe(0);
  });
});

describe("a whole answer", () => {
  const generated = (userId: string, options: Partial<MeterOptions> = {}) => {
    const inner = new MockLanguageModelV3({
      doGenerate: async () => ({
        content: [{ type: "text", text: "Hello" }],
        finishReason: stop,
        usage: usage(INPUT, 20),
        warnings: [],
      }),
    });
    const given = { userId, featureId: "scribe-write", limitId: LIMIT, countInput: () => INPUT, maxOutputTokens: 50 };
    return wrapLanguageModel({ model: inner, middleware: meterTokens(client, { ...given, ...options }) });
  };

  test("is counted by the provider's usage, at the rates of units", async () => {
    const userId = await subscribed();
    const { text } = await generateText({ model: generated(userId), prompt: "Write" });
    expect(text).toBe("Hello");
    expect(await levelOf(userId)).toEqual([INPUT + 20, 0]);
    await generateText({ model: generated(userId, { units: { input: "in", output: "out" } }), prompt: "Write" });
    expect(await levelOf(userId)).toEqual([2 * INPUT + 20 + 40, 0]);
  });

  test("that fails counts nothing", async () => {
    const userId = await subscribed();
    const inner = new MockLanguageModelV3({
      doGenerate: async () => {
        throw new Error("No answer");
      },
    });
    const options = { userId, featureId: "scribe-write", limitId: LIMIT };
    const model = wrapLanguageModel({ model: inner, middleware: meterTokens(client, options) });
    await expect(model.doGenerate({ prompt: [] })).rejects.toThrow("No answer");
    expect([await levelOf(userId), await openHolds(userId)]).toEqual([[0, 0], 0]);
  });
});
