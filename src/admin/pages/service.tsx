import { useState } from "react";
import { Link, useParams } from "react-router";
import type { Service, WirePricing } from "../answers.ts";
import { call, path } from "../api.ts";
import { draftsOf } from "../drafts.ts";
import { formatDay, formatNumber } from "../format.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import { ServiceChanges } from "../parts/service-changes.tsx";
import { Badge } from "../parts/table.tsx";
import { useAsk, useChange } from "../queries.ts";
import { byDate, useContractCount } from "../services.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.services;

export function ServicePage() {
  const here = useHere();
  const { service: name = "" } = useParams();
  const service = useAsk<Service>(here.base + path`/services/${name}`);
  const mayWrite = here.may("POST", path`/services/${name}/pricings`);
  return (
    <Page
      title={service.data?.name ?? name}
      actions={
        <>
          <Link className="button" to="price-page">
            {texts.pricePage.link}
          </Link>
          <Link className="button" to="compare">
            {t.compare}
          </Link>
          {here.may("GET", path`/services/${name}/decisions`) ? (
            <Link className="button" to="decisions">
              {t.decisions}
            </Link>
          ) : null}
          {mayWrite ? (
            <Link className="button" to="novate">
              {t.novate}
            </Link>
          ) : null}
          {mayWrite ? (
            <Link className="button primary" to={`../upload?service=${encodeURIComponent(name)}`}>
              {t.addVersion}
            </Link>
          ) : null}
        </>
      }
    >
      <Loaded query={service}>
        {(data) => (
          <>
            <Timeline service={data} />
            <ServiceChanges service={data} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Timeline({ service }: { service: Service }) {
  const here = useHere();
  const to = here.base + path`/services/${service.name}/pricings`;
  const active = useAsk<WirePricing[]>(to, { pricingStatus: "active" });
  const archived = useAsk<WirePricing[]>(to, { pricingStatus: "archived" });
  const drafts = draftsOf(here.organization.id, service.name);
  return (
    <Section title={t.timeline} lead={t.timelineLead}>
      <Loaded query={active}>
        {(now) => (
          <Loaded query={archived}>
            {(before) => {
              // The two lists arrive separately: right after an archiving, a version can be in both.
              const isArchived = new Set(before.map(({ version }) => version));
              const current = now.filter(({ version }) => !isArchived.has(version));
              const all = [
                ...current.map((pricing) => ({ pricing, status: "active" as const })),
                ...before.map((pricing) => ({ pricing, status: "archived" as const })),
              ].sort((one, other) => byDate(one.pricing, other.pricing));
              return (
                <ol className="timeline">
                  {drafts.map((draft) => (
                    <li key={draft}>
                      <span className="timeline-head">
                        <Badge tone="warn">{t.status.draft}</Badge>
                        <span>{t.draft}</span>
                      </span>
                      <Link className="button small" to={`../upload?service=${encodeURIComponent(service.name)}`}>
                        {t.resume}
                      </Link>
                    </li>
                  ))}
                  {all.map(({ pricing, status }) => (
                    <Version
                      key={pricing.version}
                      service={service}
                      pricing={pricing}
                      status={status}
                      isOnlyActive={current.length === 1}
                    />
                  ))}
                </ol>
              );
            }}
          </Loaded>
        )}
      </Loaded>
    </Section>
  );
}

function Version(props: {
  service: Service;
  pricing: WirePricing;
  status: "active" | "archived";
  isOnlyActive: boolean;
}) {
  const { service, pricing, status } = props;
  const { version } = pricing;
  const count = useContractCount(service.name, version);
  const here = useHere();
  const place = path`/services/${service.name}/pricings/${version}`;
  const contracts = `../contracts?service=${encodeURIComponent(service.name)}&version=${encodeURIComponent(version)}`;
  return (
    <li>
      <span className="timeline-head">
        <Link to={path`versions/${version}`} aria-label={t.open(version)}>
          <strong>{version}</strong>
        </Link>
        <Badge tone={status === "active" ? "good" : "plain"}>{t.status[status]}</Badge>
        <span className="hint">{formatDay(pricing.createdAt)}</span>
        <Link to={contracts}>{count === undefined ? "…" : t.contracts(formatNumber(count))}</Link>
      </span>
      <span className="actions">
        {here.may("PUT", place) ? (
          status === "archived" ? (
            <Link className="button small" to={path`activate/${version}`}>
              {t.activate}
            </Link>
          ) : props.isOnlyActive ? (
            <span className="hint">{t.onlyActive}</span>
          ) : (
            <Link className="button small" to={path`archive/${version}`}>
              {t.archive}
            </Link>
          )
        ) : null}
        {status === "archived" && here.may("DELETE", place) ? (
          <DeleteVersion service={service.name} version={version} />
        ) : null}
      </span>
    </li>
  );
}

function DeleteVersion({ service, version }: { service: string; version: string }) {
  const [isAsking, setIsAsking] = useState(false);
  const { base } = useHere();
  const remove = useChange({
    change: (_: undefined, key) => call("DELETE", base + path`/services/${service}/pricings/${version}`, { key }),
    touches: () => [`${base}/services`],
    gone: base + path`/services/${service}/pricings/${version}`,
    done: () => t.versionDeleted(version),
  });
  return (
    <>
      <button type="button" className="button small danger" onClick={() => setIsAsking(true)}>
        {t.deleteVersion}
      </button>
      {isAsking ? (
        <Confirm
          title={`${t.deleteVersion} ${version}`}
          action={t.deleteVersion}
          name={version}
          change={remove}
          onClose={() => setIsAsking(false)}
        >
          <p>{t.deleteVersionLead}</p>
        </Confirm>
      ) : null}
    </>
  );
}
