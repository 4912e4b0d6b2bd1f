import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import type { UsageItem } from "../../operations/evaluation/recording/item.ts";
import { recordUsage } from "../../operations/evaluation/recording/record-usage.ts";
import { MAX_ITEMS, usageItem } from "../../wire/usage.ts";
import { isJsonLines } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { queryParameter } from "../params.ts";
import { json } from "../reply.ts";

const flag = (c: AppContext, name: string) => queryParameter(c, name) === "true";

function lateOf(c: AppContext): "record" | "count" {
  const late = queryParameter(c, "late") ?? "record";
  if (late === "record" || late === "count") return late;
  throw new Failure("invalid", "INVALID DATA: late must be record or count");
}

/**
 * Validates the items of a batch, lowest index first.
 * @throws Failure unprocessable with the sentence of the first failing check.
 */
function itemsOf(c: AppContext): UsageItem[] {
  const body = c.get("body");
  // An empty body has no lines, and is no list.
  const values = Array.isArray(body) ? body : isJsonLines(c) ? [] : undefined;
  if (values === undefined) throw new Failure("unprocessable", "The body must be a list of usage items");
  if (values.length > MAX_ITEMS) throw new Failure("unprocessable", `A batch has at most ${MAX_ITEMS} items`);
  return values.map((value: unknown, index) => {
    const result = usageItem.safeParse(value);
    if (result.success) return result.data;
    const { issues } = result.error;
    const first = issues.find(({ code }) => code !== "unrecognized_keys") ?? issues[0];
    throw new Failure("unprocessable", `Item ${index}: ${first?.message ?? "An item must be an object"}`);
  });
}

/** Usage in batches. */
export const usageRoutes = new Hono<AppEnv>().post("/", async (c) => {
  const mode = { late: lateOf(c), strict: flag(c, "strict"), server: flag(c, "server") };
  return json(c, await recordUsage(context(c), { items: itemsOf(c), mode }));
});
