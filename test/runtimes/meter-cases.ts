import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { simulateReadableStream, streamText, wrapLanguageModel } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";
import { limitOf, meterTokens } from "../../src/ai/ai.ts";
import { Faregate } from "../../src/client/client.ts";
import { meterTools } from "../../src/mcp/mcp.ts";

const LIMIT = "tasker-maxTasks";

/**
 * Meters answers of a model, and calls of a tool, for a user with 20 tasks: a whole answer, one whose reader leaves, one that is
 * ended because nothing is left, and the tool where nothing is left. Returns what the application sees.
 */
export async function run({ url, apiKey, userId }: { url: string; apiKey: string; userId: string }): Promise<unknown> {
  const client = new Faregate({ url, apiKey });
  const answer = (text: readonly string[], maxOutputTokens: number, signal?: AbortSignal) => {
    const finishReason = { unified: "stop", raw: "stop" } as const;
    const usage = {
      inputTokens: { total: 2, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: text.length, text: undefined, reasoning: undefined },
    };
    const chunks = [
      { type: "text-start", id: "1" } as const,
      ...text.map((delta) => ({ type: "text-delta", id: "1", delta }) as const),
      { type: "text-end", id: "1" } as const,
      { type: "finish", finishReason, usage } as const,
    ];
    const middleware = meterTokens(client, {
      userId,
      featureId: "tasker-board",
      limitId: LIMIT,
      countInput: () => 2,
      maxOutputTokens,
    });
    const offline = new MockLanguageModelV3({
      doStream: async () => ({ stream: simulateReadableStream({ chunks, chunkDelayInMs: 1 }) }),
    });
    return streamText({
      model: wrapLanguageModel({ model: offline, middleware }),
      prompt: "Plan",
      maxOutputTokens,
      ...(signal === undefined ? {} : { abortSignal: signal }),
    });
  };
  const used = async () => (await client.features.evaluate(userId, "tasker-board")).used?.[LIMIT];

  const whole = answer(["a ", "b ", "c "], 4);
  const text = await whole.text;
  const afterWhole = await used();

  const leaving = new AbortController();
  for await (const _ of answer(["aaa ", "bbb ", "ccc ", "ddd "], 4, leaving.signal).textStream) leaving.abort();
  const afterLeaving = await used();

  const server = new McpServer({ name: "tasks", version: "1.0.0" });
  const tools = { plan: { featureId: "tasker-board", amounts: { [LIMIT]: 1 } } };
  const metered = meterTools(server, client, { userId, tools });
  const inputSchema = z.object({ tasks: z.number() });
  metered.registerTool("plan", { description: "Plans", inputSchema }, async () => ({ content: [] }));
  await metered.refresh();
  const [near, far] = InMemoryTransport.createLinkedPair();
  const agent = new Client({ name: "agent", version: "1.0.0" });
  await Promise.all([server.connect(far), agent.connect(near)]);
  const long = answer(
    Array.from({ length: 40 }, () => "word "),
    100,
  );
  const cut = await long.text;
  const limit = limitOf(await long.providerMetadata);

  const denied = await agent.callTool({ name: "plan", arguments: { tasks: 1 } });
  await agent.close();
  return {
    text,
    afterWhole,
    leftBetween: (afterLeaving ?? 0) - (afterWhole ?? 0),
    isCut: cut.length > 0 && cut.length < 200,
    reason: limit?.reason,
    atEnd: await used(),
    openHolds: (await client.contracts.holds(userId)).data.length,
    denied: denied.structuredContent,
  };
}
