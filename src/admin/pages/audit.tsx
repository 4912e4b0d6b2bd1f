import { Link, useSearchParams } from "react-router";
import type { AuditPage as Entries, KeyDetails } from "../answers.ts";
import { path } from "../api.ts";
import { formatMoment } from "../format.ts";
import { Select } from "../design/field.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { OlderPager } from "../design/pager.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { Table } from "../design/table.tsx";
import { useAsk } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.audit;
const PAGE_SIZE = 50;

export function AuditPage() {
  const { base } = useHere();
  const [search, setSearch] = useSearchParams();
  const keys = useAsk<KeyDetails[]>(`${base}/api-keys`);
  const keyName = (id: string | null) =>
    keys.data?.find((key) => key.id === id)?.name ?? (id === null ? "" : `…${id.slice(-4)}`);
  const entries = useAsk<Entries>(`${base}/audit-log`, {
    action: search.get("action") ?? undefined,
    target: search.get("target") ?? undefined,
    before: search.get("before") ?? undefined,
    limit: PAGE_SIZE,
  });
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="fields">
        <Select
          label={t.filterAction}
          value={search.get("action") ?? ""}
          onChange={(action) => setSearch(action === "" ? {} : { action })}
          options={[["", t.anything], ...Object.entries(t.words)]}
        />
        <SearchBox label={t.filterTarget} name="target" />
      </div>
      <Loaded query={entries}>
        {({ data, next }) => (
          <>
            {data.length === 0 ? (
              <Empty>{t.empty}</Empty>
            ) : (
              <Table label={t.title} head={[t.when, t.who, t.action, t.target, t.change]}>
                {data.map((entry) => (
                  <tr key={entry.id}>
                    <td className="nowrap">{formatMoment(entry.at)}</td>
                    <td>
                      <span title={entry.actor.id ?? undefined}>
                        {t.kinds[entry.actor.kind]} {entry.actor.name ?? keyName(entry.actor.id)}
                      </span>
                    </td>
                    <th scope="row">
                      <span title={entry.action}>{t.words[entry.action] ?? entry.action}</span>
                    </th>
                    <td>
                      {entry.action.startsWith("contract.") ? (
                        <Link to={path`../contracts/${entry.target}`}>{entry.target}</Link>
                      ) : (
                        entry.target
                      )}
                    </td>
                    <td>
                      <details>
                        <summary>{t.details}</summary>
                        <pre className="block">
                          <code>{JSON.stringify({ before: entry.before, after: entry.after }, null, 2)}</code>
                        </pre>
                      </details>
                    </td>
                  </tr>
                ))}
              </Table>
            )}
            <OlderPager next={next} />
          </>
        )}
      </Loaded>
    </Page>
  );
}
