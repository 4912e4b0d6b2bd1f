import {
  ArrowLeftRight,
  Gauge,
  type LucideIcon,
  Package,
  PackagePlus,
  Radio,
  RefreshCw,
  UserRound,
} from "lucide-react";
import { Link } from "react-router";
import type { LoggedEvent } from "../answers.ts";
import { path } from "../api.ts";
import { formatMoment, formatName, formatWhen } from "../format.ts";
import { useHere } from "../here.tsx";
import type { Stream } from "../stream.tsx";
import { texts } from "../texts.ts";
import { Empty } from "../design/page.tsx";

import { useNow } from "./usage-bar.tsx";

const t = texts.events;

/** Lists events, newest first, each linked to its subject. */
export function EventList({ stream, atMost }: { stream: Stream; atMost?: number }) {
  const now = useNow();
  const shown = atMost === undefined ? stream.events : stream.events.slice(0, atMost);
  return (
    <>
      {shown.length === 0 ? (
        <Empty>{t.empty}</Empty>
      ) : (
        <ul className="feed">
          {shown.map((event) => (
            <li key={event.id}>
              <Icon code={event.code} />
              <span className="grow">
                <b className="strong" title={event.code}>
                  {t.words[event.code] ?? event.code}
                </b>{" "}
                <Subject event={event} />
              </span>
              <time className="small faint" dateTime={event.createdAt} title={formatMoment(event.createdAt)}>
                {formatWhen(event.createdAt, now)}
              </time>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const ICONS: readonly (readonly [prefix: string, icon: LucideIcon])[] = [
  ["USAGE", Gauge],
  ["CONTRACT_RENEWED", RefreshCw],
  ["CONTRACT_NOVATED", ArrowLeftRight],
  ["CONTRACT", UserRound],
  ["PRICING", PackagePlus],
  ["SERVICE", Package],
];

function Icon({ code }: { code: string }) {
  const [, Shown] = ICONS.find(([prefix]) => code.startsWith(prefix)) ?? ["", Radio];
  return <Shown />;
}

function Subject({ event: { code, details } }: { event: LoggedEvent }) {
  const { organization } = useHere();
  const shown = Object.fromEntries(Object.entries(details).map(([name, value]) => [name, shownAs(value)]));
  const { userId, serviceName, pricingVersion, limitName, consumed, limit, threshold } = shown;
  const base = `/o/${organization.id}`;
  const isGone = code === "CONTRACT_DELETED";
  return (
    <>
      {userId === undefined ? null : isGone ? (
        userId
      ) : (
        <Link className="link" to={base + path`/contracts/${userId}`}>
          {userId}
        </Link>
      )}{" "}
      {serviceName === undefined ? null : (
        <Link className="link" to={base + path`/services/${serviceName}`}>
          {serviceName}
        </Link>
      )}{" "}
      {pricingVersion}
      {limitName === undefined ? null : `${formatName(limitName)}: ${texts.common.of(consumed ?? "", limit ?? "")}`}
      {threshold === undefined ? null : ` ${t.threshold(threshold)}`}
      {isGone ? t.deleted : null}
      {Array.isArray(details["changed"]) ? t.changed(details["changed"].map(String)) : null}
    </>
  );
}

/** Texts and numbers only: the contract before and after a change is in the API. */
function shownAs(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}
