import { Upload, UserPlus } from "lucide-react";
import { Link } from "react-router";
import type { DenialReport, Overview, Trends } from "../answers.ts";
import { path } from "../api.ts";
import { CONTRACT_STATES } from "../contract-list.ts";
import { NEAR } from "../design/meter.tsx";
import { Empty, Loaded, Page, Section } from "../design/page.tsx";
import { formatName, formatNumber } from "../format.ts";
import { Trend } from "../parts/bars.tsx";
import { EventList } from "../parts/event-list.tsx";
import { FirstSteps } from "../parts/first-steps.tsx";
import { UsageBar } from "../parts/usage-bar.tsx";
import { useAsk } from "../queries.ts";
import { useServices } from "../services.ts";
import { useHere } from "../here.tsx";
import { useStream } from "../stream.tsx";
import { texts } from "../texts.ts";
import { Attention } from "../parts/attention.tsx";

const t = texts.overview;
const SHOWN = 8;
const SHOWN_DENIED = 5;
const WEEK_HOURS = 168;
const MONTH_HOURS = 720;
/** Fills of the contract states in the composition bar. */
const FILLS = { renewing: "f1", active: "f2", ending: "fw", expired: "f3" } as const;

export function OverviewPage() {
  const here = useHere();
  const services = useServices();
  const overview = useAsk<Overview>(`${here.base}/overview`, { near: NEAR });
  const denials = useAsk<DenialReport>(here.may("GET", "/denials") ? `${here.base}/denials` : undefined, {
    hours: WEEK_HOURS,
  });
  const trends = useAsk<Trends>(`${here.base}/trends`);
  const stream = useStream();
  const isNew = services.data?.length === 0 || overview.data?.contracts.total === 0;
  return (
    <Page
      title={t.title}
      actions={
        <>
          {here.may("POST", "/contracts") ? (
            <Link className="b" to="new-contract">
              <UserPlus />
              {texts.contracts.add}
            </Link>
          ) : null}
          {here.may("POST", "/services") ? (
            <Link className="b" to="upload">
              <Upload />
              {texts.services.upload}
            </Link>
          ) : null}
        </>
      }
    >
      {isNew ? <FirstSteps hasServices={(services.data?.length ?? 0) > 0} /> : null}
      <Attention overview={overview.data} trends={trends.data} />
      <div className="half">
        <Section title={t.contracts} actions={<More to="contracts" text={t.allContracts} />}>
          <Loaded query={overview}>{(data) => <Contracts overview={data} />}</Loaded>
        </Section>
        <Section title={t.near} lead={t.nearLead} actions={<More to="contracts?state=near" text={t.allNear} />}>
          <Loaded query={overview}>
            {({ near: { users } }) =>
              users.length === 0 ? (
                <Empty>{t.nobodyNear}</Empty>
              ) : (
                <ul className="near list-lines">
                  {users.slice(0, SHOWN).map(({ userId, username, serviceName, limitName, ...usage }) => (
                    <li key={userId}>
                      <Link to={path`contracts/${userId}`}>
                        <b className="strong">{username}</b>
                        <span className="small soft">{formatName(limitName)}</span>
                      </Link>
                      <UsageBar
                        isNamed={false}
                        usage={{
                          service: serviceName,
                          limit: limitName,
                          consumed: usage.consumed,
                          held: 0,
                          allowed: usage.limit,
                          resetsAt: usage.resetTimeStamp ?? undefined,
                        }}
                      />
                    </li>
                  ))}
                </ul>
              )
            }
          </Loaded>
        </Section>
      </div>
      <div className="half">
        <Section title={t.newContracts} actions={<Review to="contracts" of={t.newContracts} />}>
          <Loaded query={trends}>
            {({ days, newContracts }) => <Trend name={t.newContracts} days={days} data={newContracts} />}
          </Loaded>
        </Section>
        <Section title={t.denied} actions={<Review to={`denials?hours=${MONTH_HOURS}`} of={t.denied} />}>
          <Loaded query={trends}>
            {({ days, denials: perDay }) => <Trend name={t.denied} days={days} data={perDay} />}
          </Loaded>
        </Section>
      </div>
      <div className="half">
        {here.may("GET", "/denials") ? (
          <Section title={t.deniedMost} actions={<More to="denials" text={t.allDenials} />}>
            <Loaded query={denials}>{(report) => <Denied report={report} />}</Loaded>
          </Section>
        ) : null}
        <Section title={t.events} actions={<More to="events" text={t.allEvents} />}>
          <EventList stream={stream} atMost={SHOWN} />
        </Section>
      </div>
    </Page>
  );
}

const More = ({ to, text }: { to: string; text: string }) => (
  <Link className="link small" to={to}>
    {text}
  </Link>
);

const Review = ({ to, of }: { to: string; of: string }) => (
  <Link className="link small" to={to} aria-label={`${t.review}: ${of}`}>
    {t.review}
  </Link>
);

/** Shows how many contracts there are, in states that exclude each other and add up. */
function Contracts({ overview: { contracts, activeVersions, services } }: { overview: Overview }) {
  return (
    <>
      <p className="row wrap">
        <span className="figure">{formatNumber(contracts.total)}</span>
        <span className="small soft">{t.inVersions(formatNumber(activeVersions), formatNumber(services))}</span>
      </p>
      {contracts.total === 0 ? null : (
        <div className="stackbar" aria-hidden="true">
          {CONTRACT_STATES.map((state) =>
            contracts[state] === 0 ? null : (
              <i key={state} className={FILLS[state]} style={{ flexGrow: contracts[state] }} />
            ),
          )}
        </div>
      )}
      <ul className="keys">
        {CONTRACT_STATES.map((state) => (
          <li key={state}>
            <Link to={`contracts?state=${state}`}>
              <i className={`sw ${FILLS[state]}`} />
              {texts.contracts.renewal[state]}
              <b>{formatNumber(contracts[state])}</b>
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Ranks the most denied features, with the share of each cause. */
function Denied({ report }: { report: DenialReport }) {
  const features = report.features.slice(0, SHOWN_DENIED);
  const most = Math.max(1, ...features.map(({ total }) => total));
  if (features.length === 0) return <Empty>{texts.denials.empty}</Empty>;
  return (
    <>
      <ul className="denied">
        {features.map(({ featureId, total, limitReached }) => (
          <li key={featureId}>
            <Link to={`denials?hours=${WEEK_HOURS}`} title={featureId}>
              <span className="row between">
                <b>{formatName(featureId.slice(featureId.indexOf("-") + 1))}</b>
                <span className="num">{formatNumber(total)}</span>
              </span>
              <span className="hbar" style={{ width: `${(100 * total) / most}%` }}>
                <i className="f1" style={{ flexGrow: total - limitReached }} />
                <i className="fw" style={{ flexGrow: limitReached }} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
      <p className="legend">
        <span className="row">
          <i className="sw f1" />
          {texts.denials.notGranted}
        </span>
        <span className="row">
          <i className="sw fw" />
          {texts.denials.limitReached}
        </span>
      </p>
    </>
  );
}
