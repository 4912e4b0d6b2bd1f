import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import type { DenialReport } from "../answers.ts";
import { path } from "../api.ts";
import { formatName, formatNumber } from "../format.ts";
import { Field, Select } from "../design/field.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { useAsk } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.denials;
/** Selectable periods in hours. The first equals the overview's. */
const PERIODS = ["24", "168", "720"] as const;

/** Returns the feature's name in `<service>-<feature>`. */
const nameIn = (featureId: string): string => featureId.slice(featureId.indexOf("-") + 1);

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
                      <Link
                        to={path`../playground?subject=invented&feature=${feature.featureId}`}
                        title={feature.featureId}
                      >
                        <b className="strong">{formatName(nameIn(feature.featureId))}</b>{" "}
                        <span className="mono faint">{feature.featureId}</span>
                      </Link>
                    </th>
                    <td className="num">{formatNumber(feature.total)}</td>
                    <td className="num">{formatNumber(feature.limitReached)}</td>
                    <td className="num">{formatNumber(feature.total - feature.limitReached)}</td>
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
