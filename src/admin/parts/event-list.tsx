import { Link } from "react-router";
import type { LoggedEvent } from "../answers.ts";
import { path } from "../api.ts";
import { formatMoment } from "../format.ts";
import { useHere } from "../session.tsx";
import type { Stream } from "../stream.tsx";
import { texts } from "../texts.ts";
import { Empty } from "./page.tsx";
import { Badge, Table } from "./table.tsx";

const t = texts.events;
const TONES = { live: "good", connecting: "plain", off: "warn" } as const;

/** Lists events, newest first, each linked to its subject. */
export function EventList({ stream, atMost }: { stream: Stream; atMost?: number }) {
  const shown = atMost === undefined ? stream.events : stream.events.slice(0, atMost);
  return (
    <>
      <p role="status">
        <Badge tone={TONES[stream.state]}>{texts.shell.stream[stream.state]}</Badge>
      </p>
      {shown.length === 0 ? (
        <Empty>{t.empty}</Empty>
      ) : (
        <Table label={t.title} head={[t.when, t.code, t.details]}>
          {shown.map((event) => (
            <tr key={event.id}>
              <td>{formatMoment(event.createdAt)}</td>
              <th scope="row">
                <code>{event.code}</code>
              </th>
              <td>
                <Subject event={event} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

function Subject({ event: { code, details } }: { event: LoggedEvent }) {
  const { organization } = useHere();
  const shown = Object.fromEntries(Object.entries(details).map(([name, value]) => [name, shownAs(value)]));
  const { userId, serviceName, pricingVersion, limitName, consumed, limit } = shown;
  const base = `/o/${organization.id}`;
  const isGone = code === "CONTRACT_DELETED";
  return (
    <>
      {userId === undefined ? null : isGone ? userId : <Link to={base + path`/contracts/${userId}`}>{userId}</Link>}{" "}
      {serviceName === undefined ? null : <Link to={base + path`/services/${serviceName}`}>{serviceName}</Link>}{" "}
      {pricingVersion}
      {limitName === undefined ? null : `${limitName}: ${texts.common.of(consumed ?? "", limit ?? "")}`}
      {isGone ? t.deleted : null}
      {Array.isArray(details["changed"]) ? t.changed(details["changed"].map(String)) : null}
    </>
  );
}

/** Texts and numbers only: the contract before and after a change is in the API. */
function shownAs(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}
