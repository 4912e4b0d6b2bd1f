import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import type { DenialReport } from "../answers.ts";
import { path } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Field, Select } from "../design/field.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { useAsk } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.denials;
/** Selectable periods in hours. The first equals the overview's. */
const PERIODS = ["24", "168"] as const;

export function DenialsPage() {
  const [search, setSearch] = useSearchParams();
  const [user, setUser] = useState("");
  const hours = PERIODS.find((each) => each === search.get("hours")) ?? PERIODS[0];
  const denials = useAsk<DenialReport>(`${useHere().base}/denials`, { hours });
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="fields">
        <Select
          label={t.period}
          value={hours}
          onChange={(chosen) => setSearch({ hours: chosen })}
          options={PERIODS.map((each) => [each, t.periods[each]])}
        />
        <Field label={texts.unlock.user} value={user} onChange={setUser} />
      </div>
      <Loaded query={denials} lines={6}>
        {({ total, features }) =>
          features.length === 0 ? (
            <Empty>{t.empty}</Empty>
          ) : (
            <>
              <p>{t.total(formatNumber(total))}</p>
              <Table
                label={t.title}
                head={[t.feature, t.denials, t.limitReached, t.notGranted, ...(user === "" ? [] : [""])]}
              >
                {features.map((feature) => (
                  <tr key={feature.featureId}>
                    <th scope="row">
                      <Link to={path`../playground?subject=invented&feature=${feature.featureId}`}>
                        <code>{feature.featureId}</code>
                      </Link>
                    </th>
                    <td>{formatNumber(feature.total)}</td>
                    <td>{formatNumber(feature.limitReached)}</td>
                    <td>{formatNumber(feature.total - feature.limitReached)}</td>
                    {user === "" ? null : (
                      <td>
                        <Link
                          to={path`../playground?user=${user}&feature=${feature.featureId}`}
                          aria-label={`${feature.featureId}: ${texts.unlock.ask}`}
                        >
                          {texts.unlock.ask}
                        </Link>
                      </td>
                    )}
                  </tr>
                ))}
              </Table>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
