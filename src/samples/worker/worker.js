import { Faregate, parsePricingToken, usageOf } from "faregate";

/* A Worker that asks at the edge. `wrangler secret put FAREGATE_KEY` stores the key; no compatibility flag is needed. */
export default {
  async fetch(request, env) {
    const { features } = new Faregate({ url: env.FAREGATE_URL, apiKey: env.FAREGATE_KEY });
    if (request.method === "POST") {
      const use = { consumption: { "tasker-maxTasks": 1 }, strict: true };
      const { eval: isAllowed } = await features.evaluate("ada", "tasker-board", use);
      return Response.json({ created: isAllowed }, { status: isAllowed ? 201 : 402 });
    }
    const { features: byId } = parsePricingToken(await features.pricingToken("ada"));
    return Response.json(usageOf(byId["tasker-board"]));
  },
};
