import { useSearchParams } from "react-router";
import type { AuditPage as Entries } from "../answers.ts";
import { formatMoment } from "../format.ts";
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
  const [search] = useSearchParams();
  const entries = useAsk<Entries>(`${base}/audit-log`, {
    action: search.get("action") ?? undefined,
    target: search.get("target") ?? undefined,
    before: search.get("before") ?? undefined,
    limit: PAGE_SIZE,
  });
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="fields">
        <SearchBox label={t.filterAction} name="action" />
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
                    <td>{formatMoment(entry.at)}</td>
                    <td>
                      {t.kinds[entry.actor.kind]}{" "}
                      <code title={entry.actor.id ?? undefined}>{entry.actor.name ?? entry.actor.id}</code>
                    </td>
                    <th scope="row">
                      <code>{entry.action}</code>
                    </th>
                    <td>
                      <code>{entry.target}</code>
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
