import { formatDay, formatNumber } from "../format.ts";
import { texts } from "../texts.ts";
import { Table } from "../design/table.tsx";

const t = texts.analytics;
const [WIDTH, HEIGHT, LABEL, GAP] = [700, 220, 24, 16];

/** Shows a small series as a bar chart, with a table for screen readers. */
export function Bars({ name, labels, data }: { name: string; labels: readonly string[]; data: readonly number[] }) {
  const most = Math.max(1, ...data);
  const step = WIDTH / Math.max(1, data.length);
  return (
    <figure className="bars">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={t.summary(name, formatNumber(sumOf(data)))}>
        {data.map((value, index) => {
          const height = (value / most) * (HEIGHT - 2 * LABEL);
          const x = index * step + GAP / 2;
          const middle = x + (step - GAP) / 2;
          return (
            <g key={index}>
              <rect x={x} y={HEIGHT - LABEL - height} width={step - GAP} height={height} rx={4} />
              <text x={middle} y={HEIGHT - LABEL - height - 6} textAnchor="middle">
                {formatNumber(value)}
              </text>
              <text x={middle} y={HEIGHT - 6} textAnchor="middle">
                {labels[index]?.slice(0, 3)}
              </text>
            </g>
          );
        })}
      </svg>
      <AsTable name={name} labels={labels} columns={[{ name: t.count, data }]} />
    </figure>
  );
}

const [TREND_WIDTH, TREND_HEIGHT, TREND_GAP] = [300, 64, 2];

/** One more series of a table of days. */
interface Column {
  name: string;
  data: readonly number[];
}

/**
 * Shows counts per day as thin bars below their sum. Today is paler, because it is not over. Negative counts have no bar.
 * `columns` are those of the table; by default the counts only.
 */
export function Trend(props: {
  name: string;
  days: readonly string[];
  data: readonly number[];
  columns?: readonly Column[];
  /** True if the last day is not today. */
  isOver?: boolean;
}) {
  const { name, days, data, isOver = false } = props;
  const most = Math.max(1, ...data);
  const step = TREND_WIDTH / Math.max(1, data.length);
  const sum = formatNumber(sumOf(data));
  return (
    <figure className="trend">
      <p className="figure">{sum}</p>
      <svg
        className="chart"
        viewBox={`0 0 ${TREND_WIDTH} ${TREND_HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={t.trend(name, sum, String(days.length))}
      >
        {[0, 0.5, 1].map((share) => (
          <line
            key={share}
            className="grid"
            x1={0}
            x2={TREND_WIDTH}
            y1={share * TREND_HEIGHT}
            y2={share * TREND_HEIGHT}
            vectorEffect="non-scaling-stroke"
          />
        ))}
        {data.map((value, index) => {
          const height = Math.max(0, value / most) * TREND_HEIGHT;
          return (
            <rect
              key={index}
              className={index === data.length - 1 && !isOver ? "b2" : "b1"}
              x={index * step + TREND_GAP / 2}
              y={TREND_HEIGHT - height}
              width={step - TREND_GAP}
              height={height}
            >
              <title>{`${formatDay(days[index] ?? "")}: ${formatNumber(value)}`}</title>
            </rect>
          );
        })}
      </svg>
      <p className="row between small faint">
        <span>{formatDay(days[0] ?? "")}</span>
        <span>{t.upTo(formatNumber(most))}</span>
        <span>{isOver ? formatDay(days.at(-1) ?? "") : t.today}</span>
      </p>
      <AsTable name={name} labels={days.map(formatDay)} columns={props.columns ?? [{ name: t.count, data }]} />
    </figure>
  );
}

const sumOf = (data: readonly number[]): number => data.reduce((sum, each) => sum + each, 0);

function AsTable(props: { name: string; labels: readonly string[]; columns: readonly Column[] }) {
  const { name, labels, columns } = props;
  return (
    <details>
      <summary>{t.asTable}</summary>
      <Table label={name} head={[t.day, ...columns.map((column) => column.name)]}>
        {labels.map((label, index) => (
          <tr key={index}>
            <th scope="row">{label}</th>
            {columns.map((column) => (
              <td key={column.name} className="right num">
                {formatNumber(column.data[index] ?? 0)}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </details>
  );
}
