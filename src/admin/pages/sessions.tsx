import { call, path } from "../api.ts";
import type { UserSession } from "../answers.ts";
import { Failed, Loaded, Page, Section } from "../design/page.tsx";
import { Table, Tag } from "../design/table.tsx";
import { formatMoment } from "../format.ts";
import { useAsk, useChange } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.sessions;

/** The browsers in which this user is signed in. */
export function SessionsPage() {
  const list = useAsk<UserSession[]>("/sessions");
  const endOthers = useChange({
    change: () => call("DELETE", "/sessions"),
    touches: () => ["/sessions"],
    done: () => t.othersEnded,
  });
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        <button type="button" className="b" disabled={endOthers.isPending} onClick={() => endOthers.mutate(undefined)}>
          {texts.account.signOutElsewhere}
        </button>
      }
    >
      <Failed error={endOthers.error} />
      <Loaded query={list} lines={4}>
        {(sessions) => (
          <Section title={t.open}>
            <Table label={t.open} head={[t.browser, t.address, t.via, t.since, t.lastUsed, ""]}>
              {sessions.map((session) => (
                <SessionRow key={session.id} session={session} />
              ))}
            </Table>
          </Section>
        )}
      </Loaded>
    </Page>
  );
}

function SessionRow({ session }: { session: UserSession }) {
  const { id, agent, address, via, createdAt, lastUsedAt, current } = session;
  const end = useChange({
    change: () => call("DELETE", path`/sessions/${id}`),
    touches: () => ["/sessions"],
    done: () => t.ended,
  });
  return (
    <tr>
      <th scope="row">
        {browserOf(agent)} {current ? <Tag tone="good">{t.current}</Tag> : null}
      </th>
      <td>{address === "" ? t.unknown : address}</td>
      <td>{t.ways[via]}</td>
      <td>
        <time dateTime={createdAt}>{formatMoment(createdAt)}</time>
      </td>
      <td>
        <time dateTime={lastUsedAt}>{formatMoment(lastUsedAt)}</time>
      </td>
      <td>
        {current ? null : (
          <button type="button" className="b small" disabled={end.isPending} onClick={() => end.mutate(undefined)}>
            {t.end}
          </button>
        )}
        <Failed error={end.error} />
      </td>
    </tr>
  );
}

const BROWSERS = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
] as const;
const SYSTEMS = [
  ["Android", "Android"],
  ["iPhone", "iOS"],
  ["iPad", "iPadOS"],
  ["Windows", "Windows"],
  ["Mac OS X", "macOS"],
  ["Linux", "Linux"],
] as const;

/** Returns browser and system of a User-Agent, or its beginning. */
function browserOf(agent: string): string {
  const find = (known: typeof BROWSERS | typeof SYSTEMS) => known.find(([mark]) => agent.includes(mark))?.[1];
  const parts = [find(BROWSERS), find(SYSTEMS)].filter((part) => part !== undefined);
  return parts.length > 0 ? parts.join(", ") : agent === "" ? t.unknown : agent.slice(0, 40);
}
