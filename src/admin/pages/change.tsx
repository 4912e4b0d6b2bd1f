import { useState } from "react";
import { useParams, useSearchParams } from "react-router";
import type { Service, WirePricing } from "../answers.ts";
import { path } from "../api.ts";
import type { ChangeRequest } from "../impact.ts";
import { ChangeWizard } from "../parts/change-wizard.tsx";
import { Check, Select } from "../design/field.tsx";
import { Empty, Loaded, Page, Section } from "../design/page.tsx";
import { useAsk } from "../queries.ts";
import { byDate } from "../services.ts";
import { useHere } from "../here.tsx";
import { useServiceCrumbs } from "../parts/crumbs.ts";
import { texts } from "../texts.ts";

const t = texts.change;

/** Page for archiving, activating or disabling; the route decides which. */
export function ChangePage({ action }: { action: "archive" | "activate" | "disable" }) {
  const { service = "", version = "" } = useParams();
  const change: ChangeRequest = action === "disable" ? { action } : { action, pricingVersion: version };
  return (
    <Page title={t.titles[action](service, version)} lead={t.leads[action]} crumbs={useServiceCrumbs(service)}>
      <ChangeWizard key={`${action} ${service} ${version}`} service={service} change={change} />
    </Page>
  );
}

/** Page for novating all contracts on some versions of a service to one active version. */
export function NovationPage() {
  const { base } = useHere();
  const { service: name = "" } = useParams();
  const service = useAsk<Service>(base + path`/services/${name}`);
  const active = useAsk<WirePricing[]>(base + path`/services/${name}/pricings`, { pricingStatus: "active" });
  return (
    <Page title={t.titles.novation(name)} lead={t.leads.novation} crumbs={useServiceCrumbs(name)}>
      <Loaded query={service}>
        {(data) => <Loaded query={active}>{(pricings) => <Versions service={data} pricings={pricings} />}</Loaded>}
      </Loaded>
    </Page>
  );
}

function Versions({ service, pricings }: { service: Service; pricings: readonly WirePricing[] }) {
  const [search] = useSearchParams();
  const active = pricings.toSorted(byDate).map(({ version }) => version);
  const versions = Object.keys({ ...service.archivedPricings, ...service.activePricings });
  const asked = search.get("from");
  const [target, setTarget] = useState(() => active.find((version) => version !== asked) ?? active[0] ?? "");
  const [from, setFrom] = useState<readonly string[]>(() =>
    versions.filter((version) => (asked === null ? version !== target : version === asked)),
  );
  const toggle = (version: string) =>
    setFrom(versions.filter((each) => (each === version ? !from.includes(each) : from.includes(each))));
  if (target === "") return <Empty>{t.noActive}</Empty>;
  return (
    <>
      <Section title={t.titles.novation(service.name)}>
        <div className="fields">
          <Select
            label={t.target}
            value={target}
            onChange={setTarget}
            options={active.map((version) => [version, version] as const)}
          />
        </div>
        <fieldset>
          <legend>{t.from}</legend>
          <div className="checks">
            {versions.map((version) => (
              <Check key={version} label={version} checked={from.includes(version)} onChange={() => toggle(version)} />
            ))}
          </div>
        </fieldset>
      </Section>
      {from.length === 0 ? (
        <Empty>{t.chooseFrom}</Empty>
      ) : (
        <ChangeWizard
          key={JSON.stringify([target, from])}
          service={service.name}
          change={{ action: "novation", pricingVersion: target, from }}
        />
      )}
    </>
  );
}
