import { useInfiniteQuery } from "@tanstack/react-query";
import type { Movement, UnitUsage, UsageBucket, UsageReport } from "../answers.ts";
import { call, path } from "../api.ts";
import { Empty, Loaded, Section } from "../design/page.tsx";
import { ShowMore } from "../design/show-more.tsx";
import { Table } from "../design/table.tsx";
import { formatChange, formatMoment, formatName } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk } from "../queries.ts";
import { texts } from "../texts.ts";
import { ByUnit } from "./usage-by-unit.tsx";
import { UsageTrend } from "./usage-trend.tsx";

const t = texts.usage;
const PAGE_SIZE = 20;

/** Shows what a contract used in the last 30 days, and the movements behind it. */
export function ContractUsage({ userId }: { userId: string }) {
  const { base } = useHere();
  const to = base + path`/contracts/${userId}/usage`;
  const days = useAsk<UsageReport<UsageBucket>>(to);
  const units = useAsk<UsageReport<UnitUsage>>(to, { by: "unit" });
  return (
    <>
      <Section title={t.last30}>
        <Loaded query={days} lines={6}>
          {(report) =>
            report.totals.length === 0 ? (
              <Empty>{t.noLimits}</Empty>
            ) : (
              <div className="trends">
                {report.totals.map((total) => (
                  <div key={`${total.service} ${total.limit}`}>
                    <h3 title={`${total.service}-${total.limit}`}>{formatName(total.limit)}</h3>
                    <UsageTrend report={report} total={total} />
                    <ByUnit total={total} rows={units.data?.data ?? []} />
                  </div>
                ))}
              </div>
            )
          }
        </Loaded>
      </Section>
      <Movements to={to} />
    </>
  );
}

/** Lists the movements of the ledger, newest first. */
function Movements({ to }: { to: string }) {
  const movements = useInfiniteQuery({
    queryKey: [to, { by: "movement" }, "pages"],
    initialPageParam: undefined as number | undefined,
    queryFn: async ({ pageParam, signal }) =>
      call<UsageReport<Movement>>("GET", to, {
        query: { by: "movement", top: PAGE_SIZE, before: pageParam },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
  });
  return (
    <Section title={t.movements} lead={t.movementsLead}>
      <Loaded query={movements} lines={6}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data);
          return rows.length === 0 ? (
            <Empty>{t.noMovements}</Empty>
          ) : (
            <>
              <Table label={t.movements} head={[t.when, t.kind, t.limit, t.amount, t.feature, t.operation]}>
                {rows.map((movement) => (
                  <Row key={movement.id} movement={movement} />
                ))}
              </Table>
              <ShowMore pages={movements} label={t.more} />
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

function Row({ movement }: { movement: Movement }) {
  const { at, recordedAt, kind, service, limit, amount, featureId, operation } = movement;
  return (
    <tr>
      <th scope="row">
        <time dateTime={at} title={at}>
          {formatMoment(at)}
        </time>
        {at === recordedAt ? null : (
          <p className="hint" title={recordedAt}>
            {t.recorded(formatMoment(recordedAt))}
          </p>
        )}
      </th>
      <td>{t.kinds[kind]}</td>
      <td title={`${service}-${limit}`}>{formatName(limit)}</td>
      <td className="num">{formatChange(amount)}</td>
      <td>
        {featureId === null ? (
          <>
            <span aria-hidden="true">–</span>
            <span className="visually-hidden">{texts.common.none}</span>
          </>
        ) : (
          featureId
        )}
      </td>
      <td>
        <span className="mono faint small clip operation" title={operation}>
          {operation}
        </span>
      </td>
    </tr>
  );
}
