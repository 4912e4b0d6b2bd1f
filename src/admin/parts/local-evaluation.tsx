import type { LocalEvaluation } from "../answers.ts";
import { Loaded, Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { formatName, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.localEvaluation;
/** Interval of refreshing the figures while they are visible: leases and evaluators send no events. */
const REFRESH_MS = 10_000;

/** Section with the local evaluators that are connected, and what their leases hold. */
export function LocalEvaluationSection() {
  const { base } = useHere();
  const figures = useAsk<LocalEvaluation>(`${base}/local-evaluation`, {}, { refetchInterval: REFRESH_MS });
  return (
    <Section title={t.title} lead={t.lead}>
      <Loaded query={figures} lines={1}>
        {({ evaluators, leases, held }) => (
          <>
            <p>
              {t.evaluators(formatNumber(evaluators))} {t.leases(formatNumber(leases))}
            </p>
            {held.length === 0 ? null : (
              <Table label={t.held} head={[t.service, t.limit, t.open, t.amount]}>
                {held.map((row) => (
                  <tr key={`${row.service} ${row.limit}`}>
                    <td>{row.service}</td>
                    <th scope="row">{formatName(row.limit)}</th>
                    <td className="num">{formatNumber(row.leases)}</td>
                    <td className="num">{formatNumber(row.amount)}</td>
                  </tr>
                ))}
              </Table>
            )}
          </>
        )}
      </Loaded>
    </Section>
  );
}
