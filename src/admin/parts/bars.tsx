import { formatNumber } from "../format.ts";
import { texts } from "../texts.ts";
import { Table } from "../design/table.tsx";

const t = texts.analytics;
const [WIDTH, HEIGHT, LABEL, GAP] = [700, 220, 24, 16];

/** Shows a small series as a bar chart, with a table for screen readers. */
export function Bars({ name, labels, data }: { name: string; labels: readonly string[]; data: readonly number[] }) {
  const most = Math.max(1, ...data);
  const step = WIDTH / Math.max(1, data.length);
  const total = formatNumber(data.reduce((sum, each) => sum + each, 0));
  return (
    <figure className="bars">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={t.summary(name, total)}>
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
      <details>
        <summary>{t.asTable}</summary>
        <Table label={name} head={[t.day, t.count]}>
          {data.map((value, index) => (
            <tr key={index}>
              <th scope="row">{labels[index]}</th>
              <td className="right num">{formatNumber(value)}</td>
            </tr>
          ))}
        </Table>
      </details>
    </figure>
  );
}
