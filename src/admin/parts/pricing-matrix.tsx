import type { FeatureValue, LimitValue } from "../../core/pricing/model.ts";
import type { WirePricing } from "../answers.ts";
import { formatPeriod, formatPrice, formatValue } from "../format.ts";
import { texts } from "../texts.ts";
import { Empty } from "./page.tsx";
import { Badge, Table } from "./table.tsx";

const t = texts.pricing;

/** Table of a pricing: one column per plan; rows for prices, features and limits. */
export function PricingMatrix({ pricing }: { pricing: WirePricing }) {
  const plans = Object.values(pricing.plans);
  if (plans.length === 0) return <Empty>{t.noPlans}</Empty>;
  const head = plans.map((plan) => (
    <>
      {plan.name} {plan.private ? <Badge tone="plain">{t.private}</Badge> : null}
    </>
  ));
  return (
    <Table label={t.matrixLabel} head={["", ...head]} isMatrix>
      <tr>
        <th scope="row">{t.price}</th>
        {plans.map((plan) => (
          <td key={plan.name}>
            <strong>{formatPrice(plan.price, pricing.currency)}</strong>
          </td>
        ))}
      </tr>
      {Object.values(pricing.features).map((feature) => (
        <tr key={feature.name}>
          <th scope="row" title={feature.description}>
            {feature.name}
          </th>
          {plans.map((plan) => (
            <ValueCell key={plan.name} value={plan.features[feature.name]} />
          ))}
        </tr>
      ))}
      {Object.values(pricing.usageLimits).map((limit) => (
        <tr key={`limit ${limit.name}`}>
          <th scope="row" title={limit.description}>
            {limit.name}
            {limit.period === undefined ? null : <span className="hint"> / {formatPeriod(limit.period)}</span>}
          </th>
          {plans.map((plan) => (
            <ValueCell key={plan.name} value={plan.usageLimits[limit.name]} />
          ))}
        </tr>
      ))}
    </Table>
  );
}

/** One value; booleans are shown as a symbol with a label for screen readers. */
function ValueCell({ value }: { value: FeatureValue | LimitValue | undefined }) {
  if (typeof value !== "boolean") return <td>{formatValue(value)}</td>;
  return (
    <td className={value ? "yes" : "no"}>
      <span role="img" aria-label={formatValue(value)}>
        {value ? "✓" : "–"}
      </span>
    </td>
  );
}
