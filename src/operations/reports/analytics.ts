import { gte } from "drizzle-orm";
import { analyticsDays } from "../../db/schema.ts";
import type { Context } from "../context.ts";

const DAY_MS = 86_400_000;
const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] as const;
/** The last seven UTC days, oldest first, ending with today so far. Source: contract features-events §10. */
export async function readWeek(
  ctx: Context,
  series: "apiCalls" | "evaluations",
): Promise<{ labels: string[]; data: number[] }> {
  await ctx.resources.callCounter.flush();
  const today = ctx.resources.now().getTime();
  const days = Array.from({ length: 7 }, (_, i) => new Date(today - (6 - i) * DAY_MS));
  const first = days[0]?.toISOString().slice(0, 10) ?? "";
  const rows = await ctx.db.select().from(analyticsDays).where(gte(analyticsDays.day, first));
  const counts = new Map(rows.map((row) => [row.day, row[series]]));
  return {
    labels: days.map((day) => WEEKDAYS[day.getUTCDay()] ?? ""),
    data: days.map((day) => counts.get(day.toISOString().slice(0, 10)) ?? 0),
  };
}
