import { Check } from "lucide-react";
import type { FeatureValue, LimitValue } from "../../core/pricing/model.ts";
import type { WirePricing } from "../answers.ts";
import { Empty } from "../design/page.tsx";
import { formatName, formatPeriod, formatPriceShort, formatValue } from "../format.ts";
import { texts } from "../texts.ts";

const t = texts.pricing;

/** Table of a pricing: one column per plan with its price; rows for limits and features. */
export function PricingMatrix({ pricing }: { pricing: WirePricing }) {
  const plans = Object.values(pricing.plans);
  if (plans.length === 0) return <Empty>{t.noPlans}</Empty>;
  const limits = Object.values(pricing.usageLimits);
  const features = Object.values(pricing.features);
  return (
    <div className="box scroll" tabIndex={0} role="region" aria-label={t.matrixLabel}>
      <table className="matrix">
        <thead>
          <tr>
            <td />
            {plans.map((plan) => (
              <th key={plan.name} scope="col">
                <b>{plan.name}</b>
                <span className={typeof plan.price === "number" ? "cost" : "cost text"}>
                  {formatPriceShort(plan.price, pricing.currency)}
                </span>
                {plan.private ? <span className="small faint">{t.private}</span> : null}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {limits.length === 0 ? null : <Group title={t.limits} columns={plans.length} />}
          {limits.map(({ name, description, defaultValue, period }) => (
            <tr key={`limit ${name}`}>
              <Name name={name} description={description} />
              {plans.map((plan) => (
                <ValueCell
                  key={plan.name}
                  value={plan.usageLimits[name] ?? defaultValue}
                  unit={period === undefined ? "" : `/ ${formatPeriod(period)}`}
                />
              ))}
            </tr>
          ))}
          {features.length === 0 ? null : <Group title={t.features} columns={plans.length} />}
          {features.map(({ name, description, defaultValue }) => (
            <tr key={name}>
              <Name name={name} description={description} />
              {plans.map((plan) => (
                <ValueCell key={plan.name} value={plan.features[name] ?? defaultValue} unit="" />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Group({ title, columns }: { title: string; columns: number }) {
  return (
    <tr className="group">
      <th colSpan={columns + 1} scope="colgroup">
        {title}
      </th>
    </tr>
  );
}

function Name({ name, description }: { name: string; description: string | undefined }) {
  return (
    <th scope="row" title={description}>
      {formatName(name)} <code className="faint">{name}</code>
    </th>
  );
}

/** One value; booleans are shown as a symbol with a label for screen readers. */
function ValueCell({ value, unit }: { value: FeatureValue | LimitValue; unit: string }) {
  if (typeof value !== "boolean") {
    const isCounted = typeof value === "number" && value > 0 && formatValue(value) !== texts.common.unlimited;
    return (
      <td>
        {formatValue(value)} {isCounted && unit !== "" ? <small>{unit}</small> : null}
      </td>
    );
  }
  return (
    <td className={value ? "good" : "faint"}>
      <span role="img" aria-label={formatValue(value)}>
        {value ? <Check /> : "–"}
      </span>
    </td>
  );
}
