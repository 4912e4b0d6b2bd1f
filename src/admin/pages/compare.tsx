import { useParams, useSearchParams } from "react-router";
import type { Diff, Service } from "../answers.ts";
import { path } from "../api.ts";
import { formatNumber } from "../format.ts";
import { DiffResult } from "../parts/diff-result.tsx";
import { ReplayLater } from "../parts/replay-later.tsx";
import { Select } from "../design/field.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { useAsk } from "../queries.ts";
import { useContractCount } from "../services.ts";
import { useHere } from "../here.tsx";
import { useServiceCrumbs } from "../parts/crumbs.ts";
import { texts } from "../texts.ts";

const t = texts.compare;

export function ComparePage() {
  const { base } = useHere();
  const { service: name = "" } = useParams();
  const service = useAsk<Service>(base + path`/services/${name}`);
  return (
    <Page title={t.title(name)} lead={t.lead} crumbs={useServiceCrumbs(name)}>
      <Loaded query={service}>{(data) => <Choice service={data} />}</Loaded>
    </Page>
  );
}

function Choice({ service }: { service: Service }) {
  const { base } = useHere();
  const [search, setSearch] = useSearchParams();
  const versions = Object.keys({ ...service.archivedPricings, ...service.activePricings });
  const to = search.get("to") ?? versions.at(-1) ?? "";
  const from = search.get("from") ?? versions.findLast((version) => version !== to) ?? "";
  const isChosen = from !== "" && from !== to;
  const diff = useAsk<Diff>(isChosen ? base + path`/services/${service.name}/diff` : undefined, { from, to });
  const set = (which: "from" | "to", version: string) => setSearch({ from, to, [which]: version }, { replace: true });
  const options = versions.map((version) => [version, version] as const);
  const count = useContractCount(service.name, from);
  return (
    <>
      <div className="fields">
        <Select label={t.from} value={from} onChange={(version) => set("from", version)} options={options} />
        <Select label={t.to} value={to} onChange={(version) => set("to", version)} options={options} />
      </div>
      {isChosen ? (
        <Loaded query={diff}>
          {(data) => (
            <>
              <p>{count === undefined ? "" : t.contracts(formatNumber(count), from)}</p>
              <DiffResult diff={data} to={to} title={t.verdict} />
              <ReplayLater key={to} service={service.name} tried={{ pricingVersion: to }} />
            </>
          )}
        </Loaded>
      ) : (
        <Empty>{from === to ? t.same : t.choose}</Empty>
      )}
    </>
  );
}
