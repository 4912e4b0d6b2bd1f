import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { VersionFile, WirePricing } from "../answers.ts";
import { callForText, path } from "../api.ts";
import { formatDay, formatName, formatPeriod, formatPrice, formatValue } from "../format.ts";
import { Empty, Loaded, Section } from "../design/page.tsx";
import { PricingMatrix } from "./pricing-matrix.tsx";
import { Tag, Table } from "../design/table.tsx";
import { Tabs } from "../design/tabs.tsx";
import { Yaml } from "./yaml.tsx";
import { useHere } from "../here.tsx";
import { useAsk } from "../queries.ts";
import { save } from "../save.ts";
import { serviceKey } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.pricing;

/** Shows one version of a pricing: plans, add-ons, features, and the file itself. */
export function PricingTabs({
  service,
  pricing,
  actions,
}: {
  service: string;
  pricing: WirePricing;
  actions: ReactNode;
}) {
  const addOns = Object.values(pricing.addOns);
  const features = Object.values(pricing.features);
  return (
    <Tabs
      label={t.title(service, pricing.version)}
      tabs={[
        {
          id: "plans",
          title: t.tabs.matrix,
          content: (
            <Section
              title={t.plansIn(pricing.version)}
              lead={t.created(formatDay(pricing.createdAt))}
              actions={actions}
            >
              <PricingMatrix pricing={pricing} />
            </Section>
          ),
        },
        { id: "add-ons", title: t.tabs.addOns, count: addOns.length, content: <AddOns pricing={pricing} /> },
        {
          id: "features",
          title: t.tabs.features,
          count: features.length,
          content: <Features service={service} pricing={pricing} />,
        },
        { id: "yaml", title: t.tabs.yaml, content: <Source service={service} pricing={pricing} /> },
      ]}
    />
  );
}

function AddOns({ pricing }: { pricing: WirePricing }) {
  const addOns = Object.values(pricing.addOns);
  if (addOns.length === 0) return <Empty>{t.noAddOns}</Empty>;
  return (
    <div className="columns">
      {addOns.map((addOn) => {
        const { minQuantity, maxQuantity, quantityStep } = addOn.subscriptionConstraints ?? {
          minQuantity: 1,
          maxQuantity: null,
          quantityStep: 1,
        };
        const max = maxQuantity === null ? texts.common.unlimited : String(maxQuantity);
        return (
          <section key={addOn.name} className="section">
            <h2>
              {formatName(addOn.name)} {addOn.private ? <Tag tone="plain">{t.private}</Tag> : null}
            </h2>
            {addOn.description === undefined ? null : <p>{addOn.description}</p>}
            <dl className="pairs">
              <dt>{t.price}</dt>
              <dd>{formatPrice(addOn.price, pricing.currency)}</dd>
              <Values title={t.replaces} values={{ ...addOn.features, ...addOn.usageLimits }} />
              <Values title={t.extends} values={addOn.usageLimitsExtensions} />
              <Names title={t.availableFor} names={addOn.availableFor} />
              <Names title={t.dependsOn} names={addOn.dependsOn} />
              <Names title={t.excludes} names={addOn.excludes} />
              <dt>{t.quantity}</dt>
              <dd>{t.quantityRange(String(minQuantity), max, String(quantityStep))}</dd>
            </dl>
          </section>
        );
      })}
    </div>
  );
}

function Values({ title, values }: { title: string; values: Record<string, Parameters<typeof formatValue>[0]> }) {
  const entries = Object.entries(values);
  if (entries.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>{entries.map(([name, value]) => `${formatName(name)}: ${formatValue(value)}`).join(", ")}</dd>
    </>
  );
}

function Names({ title, names }: { title: string; names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>{names.join(", ")}</dd>
    </>
  );
}

function Features({ service, pricing }: { service: string; pricing: WirePricing }) {
  return (
    <Table label={t.tabs.features} head={[t.featureId, t.type, t.expression]}>
      {Object.values(pricing.features).map((feature) => (
        <tr key={feature.name}>
          <th scope="row">
            <code>
              {serviceKey(service)}-{feature.name}
            </code>
            {feature.description === undefined ? null : <p className="hint">{feature.description}</p>}
          </th>
          <td>{feature.type}</td>
          <td className="wide">
            <code>{feature.expression ?? t.noExpression}</code>
            {feature.serverExpression === undefined ? null : (
              <p>
                {t.serverExpression}: <code>{feature.serverExpression}</code>
              </p>
            )}
          </td>
        </tr>
      ))}
      {Object.values(pricing.usageLimits).map((limit) => (
        <tr key={`limit ${limit.name}`}>
          <th scope="row">
            <code>
              {serviceKey(service)}-{limit.name}
            </code>
            {limit.description === undefined ? null : <p className="hint">{limit.description}</p>}
          </th>
          <td>{t.limit}</td>
          <td className="wide">
            {limit.period === undefined
              ? limit.trackable
                ? t.counted
                : t.notCounted
              : t.renews(formatPeriod(limit.period), limit.period.value === 1 && limit.period.unit === "MONTH")}
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** Shows the text of a version, and its expectations beside it. */
function Source({ service, pricing }: { service: string; pricing: WirePricing }) {
  const { base } = useHere();
  const { url, version } = pricing;
  const at = base + path`/services/${service}/pricings/${version}`;
  const source = useText(`${at}/source`);
  const versions = useAsk<VersionFile[]>(base + path`/services/${service}/versions`);
  const isTested = versions.data?.some(
    ({ pricingVersion, expectations }) => pricingVersion === version && expectations !== null,
  );
  return (
    <>
      {url === undefined ? null : (
        <p>
          {t.byUrl} <code>{url}</code>
        </p>
      )}
      <Loaded query={source} lines={12}>
        {(yaml) => <TextFile text={yaml} label={t.tabs.yaml} name={`${version}.yml`} />}
      </Loaded>
      <Section title={t.expectations}>
        <Loaded query={versions} lines={4}>
          {() => (isTested === true ? <Expectations at={at} version={version} /> : <Empty>{t.noExpectations}</Empty>)}
        </Loaded>
      </Section>
    </>
  );
}

function Expectations({ at, version }: { at: string; version: string }) {
  return (
    <Loaded query={useText(`${at}/expectations`)} lines={4}>
      {(yaml) => <TextFile text={yaml} label={t.expectations} name={`${version}.expectations.yml`} />}
    </Loaded>
  );
}

/** Reads a text of the server. */
function useText(to: string) {
  return useQuery({ queryKey: [to], queryFn: ({ signal }) => callForText(to, { signal }) });
}

function TextFile({ text, label, name }: { text: string; label: string; name: string }) {
  return (
    <>
      <Yaml text={text} label={label} />
      <button type="button" className="b" onClick={() => save(new Blob([text], { type: "text/yaml" }), name)}>
        {t.download}
      </button>
    </>
  );
}
