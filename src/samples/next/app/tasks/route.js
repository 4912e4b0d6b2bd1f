import { Faregate } from "faregate";

/** Counts the task, creates it, and answers with a new pricing token. */
export async function POST() {
  const { features } = new Faregate({ url: process.env.FAREGATE_URL, apiKey: process.env.FAREGATE_KEY });
  await features.evaluate("ada", "tasker-board", { consumption: { "tasker-maxTasks": 1 }, strict: true });
  return new Response(await features.pricingToken("ada"));
}
