import type { UnitUsage, UsageTotal } from "../answers.ts";
import { Table } from "../design/table.tsx";
import { formatName, formatNumber } from "../format.ts";
import { texts } from "../texts.ts";
import { isSameLimit } from "./usage-trend.tsx";

const t = texts.usage;

/** Shows which units a limit was spent on, most expensive first. Nothing for limits without units. */
export function ByUnit({ total, rows }: { total: UsageTotal; rows: readonly UnitUsage[] }) {
  const own = rows.filter((row) => isSameLimit(row, total));
  if (own.length === 0) return null;
  return (
    <div>
      <h3>{t.byUnit}</h3>
      <Table label={`${t.byUnit}: ${formatName(total.limit)}`} head={[t.unit, t.feature, t.units, t.cost]}>
        {own.map(({ unit, featureId, units, counted, late }) => (
          <tr key={`${unit} ${featureId}`}>
            <th scope="row">
              <span className="mono">{unit}</span>
            </th>
            <td title={featureId ?? undefined}>
              {featureId === null ? t.byHand : formatName(featureId.slice(featureId.indexOf("-") + 1))}
            </td>
            <td className="num">{formatNumber(units)}</td>
            <td className="num">{formatNumber(counted + late)}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}
