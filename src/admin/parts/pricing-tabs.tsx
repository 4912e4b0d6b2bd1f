import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { WirePricing } from "../answers.ts";
import { API_URL } from "../api.ts";
import { formatDay, formatName, formatPeriod, formatPrice, formatValue } from "../format.ts";
import { Empty, Loaded, Section } from "../design/page.tsx";
import { PricingMatrix } from "./pricing-matrix.tsx";
import { Tag, Table } from "../design/table.tsx";
import { Tabs } from "../design/tabs.tsx";
import { Yaml } from "./yaml.tsx";
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
        { id: "yaml", title: t.tabs.yaml, content: <Source pricing={pricing} /> },
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

/** Shows the uploaded text, which the server serves at a public address. */
function Source({ pricing }: { pricing: WirePricing }) {
  const { yamlPath } = pricing;
  const address = yamlPath === undefined ? undefined : API_URL.replace(/\/api\/v1$/, yamlPath);
  const text = useQuery({
    queryKey: ["text", address],
    queryFn: async () => {
      const answer = await fetch(address ?? "");
      if (!answer.ok) throw new Error(texts.errors.status(answer.status));
      return answer.text();
    },
    enabled: address !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (address === undefined) {
    return (
      <Empty>
        {t.byUrl} <code>{pricing.url}</code>
      </Empty>
    );
  }
  return (
    <Loaded query={text} lines={12}>
      {(yaml) => (
        <>
          <Yaml text={yaml} label={t.tabs.yaml} />
          <a className="b" href={address} download={`${pricing.version}.yml`}>
            {t.download}
          </a>
        </>
      )}
    </Loaded>
  );
}
