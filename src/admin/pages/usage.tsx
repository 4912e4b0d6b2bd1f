import { Download } from "lucide-react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import type {
  FeatureUsage,
  SpenderUsage,
  UnitUsage,
  UsageBucket,
  UsageReport,
  UsageTotal,
  UserUsage,
} from "../answers.ts";
import { callForText, path } from "../api.ts";
import { Select } from "../design/field.tsx";
import { FilterChip } from "../design/filter-chip.tsx";
import { Menu, MenuItem } from "../design/menu.tsx";
import { Empty, Failed, Loaded, Page, Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { formatName, formatNumber, formatShare } from "../format.ts";
import { useHere } from "../here.tsx";
import { LocalEvaluationSection } from "../parts/local-evaluation.tsx";
import { UsageAlertsSection } from "../parts/usage-alerts.tsx";
import { ByUnit } from "../parts/usage-by-unit.tsx";
import { isSameLimit, UsageTrend } from "../parts/usage-trend.tsx";
import { useAsk } from "../queries.ts";
import { save } from "../save.ts";
import { serviceKey, useServices } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.usage;
const PERIODS = ["7", "30", "90", "365"] as const;
type Period = (typeof PERIODS)[number];
/** The server's own period, which it bounds by the start of the record. */
const DEFAULT: Period = "30";
const DAY_MS = 86_400_000;
/** Rows of each limit by feature and by person. One more is asked for, to know whether there are more. */
const TOP = 10;
const ASKED = TOP + 1;
const GROUPINGS = ["day", "feature", "user", "spender", "unit", "block"] as const;

/** Returns the first moment of a period that ends with today. Undefined for the default one. */
function startOf(period: Period): string | undefined {
  if (period === DEFAULT) return undefined;
  const today = Math.floor(Date.now() / DAY_MS);
  return new Date((today - Number(period) + 1) * DAY_MS).toISOString();
}

export function UsagePage() {
  const to = `${useHere().base}/usage`;
  const [search] = useSearchParams();
  const period = PERIODS.find((each) => each === search.get("days")) ?? DEFAULT;
  const service = search.get("service") ?? "";
  const limit = search.get("limit") ?? "";
  const filters = { from: startOf(period), service };
  const days = useAsk<UsageReport<UsageBucket>>(to, { ...filters, by: "day", limit });
  const users = useAsk<UsageReport<UserUsage>>(to, { ...filters, by: "user", limit, top: ASKED });
  const spenders = useAsk<UsageReport<SpenderUsage>>(to, { ...filters, by: "spender", limit, top: ASKED });
  // Without the filter by limit, so that its totals name the limits to choose from.
  const features = useAsk<UsageReport<FeatureUsage>>(to, { ...filters, by: "feature", top: ASKED });
  const units = useAsk<UsageReport<UnitUsage>>(to, { ...filters, by: "unit", limit, top: ASKED });
  return (
    <Page title={t.title} lead={t.lead} actions={<Export query={{ ...filters, limit }} />}>
      <Filters period={period} service={service} limit={limit} totals={features.data?.totals ?? []} />
      <Loaded query={days} lines={10}>
        {(report) =>
          report.totals.length === 0 ? (
            <Empty>{t.empty}</Empty>
          ) : (
            report.totals.map((total) => (
              <Section key={`${total.service} ${total.limit}`} title={formatName(total.limit)} lead={total.service}>
                <UsageTrend report={report} total={total} />
                <div className="half">
                  <Loaded query={features}>
                    {({ data }) => <ByFeature total={total} rows={data.filter((row) => isSameLimit(row, total))} />}
                  </Loaded>
                  <Loaded query={users}>
                    {({ data }) => (
                      <ByPerson
                        users={data.filter((row) => isSameLimit(row, total))}
                        spenders={(spenders.data?.data ?? []).filter((row) => isSameLimit(row, total))}
                      />
                    )}
                  </Loaded>
                </div>
                <ByUnit total={total} rows={units.data?.data ?? []} />
              </Section>
            ))
          )
        }
      </Loaded>
      <LocalEvaluationSection />
      <UsageAlertsSection />
    </Page>
  );
}

/** Filters of the report, all kept in the URL. */
function Filters(props: { period: Period; service: string; limit: string; totals: readonly UsageTotal[] }) {
  const [, setSearch] = useSearchParams();
  const services = useServices();
  const set = (changes: Record<string, string>) =>
    setSearch((before) => {
      for (const [name, value] of Object.entries(changes)) {
        if (value === "") before.delete(name);
        else before.set(name, value);
      }
      return before;
    });
  const limits = [...new Set(props.totals.map(({ limit }) => limit))];
  return (
    <div className="filters fields">
      <Select
        label={t.period}
        value={props.period}
        onChange={(days) => set({ days })}
        options={PERIODS.map((each) => [each, t.periods[each]])}
      />
      <div className="chips">
        <FilterChip
          label={t.service}
          value={props.service}
          onChange={(service) => set({ service, limit: "" })}
          options={(services.data ?? []).map(({ name }) => [serviceKey(name), name] as const)}
        />
        <FilterChip
          label={t.limit}
          value={props.limit}
          onChange={(limit) => set({ limit })}
          options={limits.map((each) => [each, formatName(each)] as const)}
        />
      </div>
    </div>
  );
}

/** Ranks the features that used a limit, with their share of it. */
function ByFeature({ total, rows }: { total: UsageTotal; rows: readonly FeatureUsage[] }) {
  return (
    <div>
      <h3>{t.byFeature}</h3>
      {rows.length === 0 ? (
        <p className="soft">{t.noneYet}</p>
      ) : (
        <Table label={`${t.byFeature}: ${formatName(total.limit)}`} head={[t.feature, t.counted, t.share]}>
          {rows.slice(0, TOP).map(({ featureId, counted }) => (
            <tr key={featureId ?? ""}>
              <th scope="row" title={featureId ?? undefined}>
                {featureId === null ? t.byHand : formatName(featureId.slice(featureId.indexOf("-") + 1))}
              </th>
              <td className="num">{formatNumber(counted)}</td>
              <td className="num">{total.counted > 0 && counted >= 0 ? formatShare(counted / total.counted) : "–"}</td>
            </tr>
          ))}
        </Table>
      )}
      {rows.length < ASKED ? null : <p className="small soft">{t.top(formatNumber(TOP))}</p>}
    </div>
  );
}

/** Ranks the people who used a limit: spenders where a contract names some. Each leads to the contract. */
function ByPerson({ users, spenders }: { users: readonly UserUsage[]; spenders: readonly SpenderUsage[] }) {
  const named = new Set(spenders.map(({ userId }) => userId));
  const rows = [
    ...spenders.map(({ userId = "", spender, counted }) => ({ userId, spender, counted })),
    ...users.flatMap(({ userId, counted }) =>
      userId === null || named.has(userId) ? [] : [{ userId, spender: undefined, counted }],
    ),
  ].toSorted((a, b) => b.counted - a.counted);
  const most = Math.max(1, ...rows.map(({ counted }) => counted));
  return (
    <div>
      <h3>{t.byUser}</h3>
      {rows.length === 0 ? <p className="soft">{t.noneYet}</p> : null}
      <ul className="denied">
        {rows.slice(0, TOP).map(({ userId, spender, counted }) => (
          <li key={`${userId} ${spender ?? ""}`}>
            <Link to={path`../contracts/${userId}` + (spender === undefined ? "?tab=usage" : "?tab=team")}>
              <span className="row between">
                <span className="clip">
                  <b>{spender ?? userId}</b>
                  {spender === undefined ? null : <span className="soft"> {userId}</span>}
                </span>
                <span className="num">{formatNumber(counted)}</span>
              </span>
              <span className="hbar" style={{ width: `${(100 * Math.max(0, counted)) / most}%` }}>
                <i className="f1" style={{ flexGrow: 1 }} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {rows.length < ASKED ? null : <p className="small soft">{t.top(formatNumber(TOP))}</p>}
    </div>
  );
}

/** Saves the report that the filters choose as a file, in the server's own format. */
function Export({ query }: { query: Record<string, string | undefined> }) {
  const to = `${useHere().base}/usage`;
  const [error, setError] = useState<Error | null>(null);
  const run = async (by: (typeof GROUPINGS)[number]) => {
    setError(null);
    try {
      // The most rows that the server allows.
      const top = by === "day" ? undefined : 1000;
      const text = await callForText(to, { query: { ...query, by, top }, headers: { accept: "text/csv" } });
      save(new Blob([text], { type: "text/csv" }), `usage-by-${by}.csv`);
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    }
  };
  return (
    <>
      <Failed error={error} />
      <Menu
        label={t.exportCsv}
        hasText
        trigger={
          <>
            <Download />
            {t.exportCsv}
          </>
        }
      >
        {GROUPINGS.map((by) => (
          <MenuItem key={by} onSelect={() => void run(by)}>
            {t.exports[by]}
          </MenuItem>
        ))}
      </Menu>
    </>
  );
}
