import type { UsageBucket, UsageReport, UsageTotal } from "../answers.ts";
import { formatName, formatNumber } from "../format.ts";
import { texts } from "../texts.ts";
import { Trend } from "./bars.tsx";

const t = texts.usage;

/** Returns true for rows and totals of the same limit of the same service. */
export const isSameLimit = (one: Limit, other: Limit): boolean =>
  one.service === other.service && one.limit === other.limit;
type Limit = Pick<UsageTotal, "service" | "limit">;

/** Shows what was counted of one limit per day. Its table also has what resets cleared and what was recorded late. */
export function UsageTrend({ report, total }: { report: UsageReport<UsageBucket>; total: UsageTotal }) {
  const rows = report.data.filter((row) => isSameLimit(row, total));
  const counted = rows.map((row) => row.counted);
  return (
    <>
      <Trend
        name={t.trend(formatName(total.limit), total.service)}
        days={rows.map(({ at }) => at)}
        data={counted}
        columns={[
          { name: t.counted, data: counted },
          { name: t.cleared, data: rows.map(({ cleared }) => cleared) },
          { name: t.late, data: rows.map(({ late }) => late) },
        ]}
      />
      {total.late === 0 ? null : <p className="small soft">{t.lateTotal(formatNumber(total.late))}</p>}
    </>
  );
}
