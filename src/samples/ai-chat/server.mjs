import { serve } from "@hono/node-server";
import { streamText, wrapLanguageModel } from "ai";
import { Faregate } from "faregate";
import { LimitReachedError, limitOf, meterTokens } from "faregate/ai";
import { Hono } from "hono";
import { model } from "./model.mjs";

/*
 * A chat that spends credits, at the rates of src/samples/scribe.yml. Each conversation has a budget, so that none of them uses
 * up the month. The header stands in for your own sign-in.
 */

const faregate = new Faregate({ url: process.env.FAREGATE_URL, apiKey: process.env.FAREGATE_KEY });
const app = new Hono();
const userOf = (c) => c.req.header("x-user") ?? "ada";

/** Contracts a new customer, and bounds each conversation of each of its people. */
app.post("/api/customers", async (c) => {
  const { userId } = await c.req.json();
  await faregate.contracts.create({
    userContact: { userId, username: userId },
    contractedServices: { scribe: "1.0.0" },
    subscriptionPlans: { scribe: "PRO" },
    subscriptionAddOns: {},
  });
  const budget = { limit: "scribe-credits", spender: "*/*", amount: 5, window: "life" };
  await faregate.contracts.budgets.put(userId, "conversation", budget);
  return c.json({ created: true }, 201);
});

/** Streams an answer as text. The last line says why it ended early, if it did. */
app.post("/api/chat/:conversation", async (c) => {
  const { prompt, person } = await c.req.json();
  const metered = wrapLanguageModel({
    model,
    middleware: meterTokens(faregate, {
      userId: userOf(c),
      featureId: "scribe-write",
      limitId: "scribe-credits",
      units: { input: "large.input", output: "large.output" },
      spender: [person, c.req.param("conversation")],
    }),
  });
  let failure;
  const answer = streamText({
    model: metered,
    prompt,
    maxOutputTokens: 1000,
    abortSignal: c.req.raw.signal,
    onError: ({ error }) => {
      failure = error;
      if (!(error instanceof LimitReachedError)) console.error(error);
    },
  });
  const parts = answer.textStream[Symbol.asyncIterator]();
  const first = await parts.next();
  if (failure instanceof LimitReachedError) return c.json(denialOf(failure.limit), 402);
  if (failure !== undefined) return c.json({ error: "The model does not answer" }, 502);
  const text = new ReadableStream({
    async start(controller) {
      try {
        for (let part = first; !part.done; part = await parts.next()) controller.enqueue(part.value);
      } catch (error) {
        failure = error;
      }
      const limit = failure === undefined ? limitOf(await answer.providerMetadata) : undefined;
      if (failure !== undefined) controller.enqueue("\nThe model stopped answering.");
      else if (limit !== undefined) controller.enqueue(`\n${denialOf(limit).error}`);
      controller.close();
    },
  });
  return c.body(text.pipeThrough(new TextEncoderStream()));
});

/** Names the budget that is used up, or what to buy. */
const denialOf = ({ budget, unlock, resetAt }) =>
  budget
    ? { error: "This conversation has spent its credits. Begin another one.", budget }
    : { error: "Your credits of this month are spent.", resetAt, unlock };

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 4000) }, ({ port }) =>
  console.log(`The chat is listening on port ${port}`),
);
