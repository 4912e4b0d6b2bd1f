import { Link } from "react-router";
import type { Overview } from "../answers.ts";
import { path } from "../api.ts";
import { CONTRACT_STATES } from "../contract-list.ts";
import { formatNumber } from "../format.ts";
import { EventList } from "../parts/event-list.tsx";
import { FirstSteps } from "../parts/first-steps.tsx";
import { Empty, Loaded, Page, Section } from "../parts/page.tsx";
import { NEAR, UsageBar } from "../parts/usage-bar.tsx";
import { useAsk } from "../queries.ts";
import { useServices } from "../services.ts";
import { useHere } from "../session.tsx";
import { useStream } from "../stream.tsx";
import { texts } from "../texts.ts";

const t = texts.overview;
const SHOWN = 8;

export function OverviewPage() {
  const services = useServices();
  const overview = useAsk<Overview>(`${useHere().base}/overview`, { near: NEAR });
  const stream = useStream();
  const { contracts, near, limitsReached, denials, activeVersions } = overview.data ?? {};
  const isNew = services.data?.length === 0;
  return (
    <Page title={t.title}>
      {isNew ? <FirstSteps /> : null}
      <div className="numbers">
        <NumberLink to="contracts" label={t.contracts} value={contracts?.total} />
        <NumberLink to="contracts?state=near" label={t.near} value={near?.total} />
        <NumberLink to="events?code=USAGE_LIMIT_REACHED" label={t.limitsReached} value={limitsReached?.total} />
        <NumberLink to="denials" label={t.denials} value={denials?.total} />
        <NumberLink to="services" label={t.versions} value={activeVersions} />
      </div>
      <div className="columns">
        <Section title={t.byState}>
          <Loaded query={overview}>
            {({ contracts }) => (
              <ul className="states">
                {CONTRACT_STATES.map((state) => (
                  <li key={state}>
                    <Link to={`contracts?state=${state}`}>{texts.contracts.state[state]}</Link>
                    <strong>{formatNumber(contracts[state])}</strong>
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
        </Section>
        <Section title={t.near} lead={t.nearLead}>
          <Loaded query={overview}>
            {({ near: { users } }) =>
              users.length === 0 ? (
                <Empty>{t.nobodyNear}</Empty>
              ) : (
                users.slice(0, SHOWN).map(({ userId, username, serviceName, limitName, ...usage }) => (
                  <div key={userId} className="usage-row">
                    <Link to={path`contracts/${userId}`}>{username}</Link>
                    <UsageBar
                      usage={{
                        service: serviceName,
                        limit: limitName,
                        consumed: usage.consumed,
                        allowed: usage.limit,
                        resetsAt: usage.resetTimeStamp ?? undefined,
                      }}
                    />
                  </div>
                ))
              )
            }
          </Loaded>
        </Section>
      </div>
      <Section
        title={t.events}
        actions={
          <Link className="button small" to="events">
            {t.allEvents}
          </Link>
        }
      >
        <EventList stream={stream} atMost={SHOWN} />
      </Section>
    </Page>
  );
}

/** A figure that links to the list it counts. */
function NumberLink({ to, label, value }: { to: string; label: string; value: number | undefined }) {
  return (
    <Link className="card number-link" to={to}>
      <span>{label}</span>
      <strong>{value === undefined ? "…" : formatNumber(value)}</strong>
    </Link>
  );
}
