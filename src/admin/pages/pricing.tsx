import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "react-router";
import type { WirePricing } from "../answers.ts";
import { API_URL } from "../api.ts";
import { formatDay, formatPeriod, formatPrice, formatValue } from "../format.ts";
import { Empty, Loaded, Page } from "../parts/page.tsx";
import { PricingMatrix } from "../parts/pricing-matrix.tsx";
import { Badge, Table } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { Yaml } from "../parts/yaml.tsx";
import { serviceKey, usePricing } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.pricing;

export function PricingPage() {
  const { service = "", version = "" } = useParams();
  const pricing = usePricing(service, version);
  return (
    <Page
      title={t.title(service, version)}
      lead={pricing.data === undefined ? undefined : t.created(formatDay(pricing.data.createdAt))}
      actions={
        <Link
          className="button"
          to={`../services/${encodeURIComponent(service)}/compare?to=${encodeURIComponent(version)}`}
        >
          {texts.services.compare}
        </Link>
      }
    >
      <Loaded query={pricing} lines={12}>
        {(data) => (
          <Tabs
            label={t.title(service, version)}
            tabs={[
              { id: "plans", title: t.tabs.matrix, content: <PricingMatrix pricing={data} /> },
              { id: "add-ons", title: t.tabs.addOns, content: <AddOns pricing={data} /> },
              { id: "features", title: t.tabs.features, content: <Features service={service} pricing={data} /> },
              { id: "yaml", title: t.tabs.yaml, content: <Source pricing={data} /> },
            ]}
          />
        )}
      </Loaded>
    </Page>
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
          <section key={addOn.name} className="card">
            <h2>
              {addOn.name} {addOn.private ? <Badge tone="plain">{t.private}</Badge> : null}
            </h2>
            {addOn.description === undefined ? null : <p>{addOn.description}</p>}
            <dl className="facts">
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
      <dd>{entries.map(([name, value]) => `${name}: ${formatValue(value)}`).join(", ")}</dd>
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
              : t.renews(formatPeriod(limit.period))}
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
          <a className="button" href={address} download={`${pricing.version}.yml`}>
            {t.download}
          </a>
        </>
      )}
    </Loaded>
  );
}
