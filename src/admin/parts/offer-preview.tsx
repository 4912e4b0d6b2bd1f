import { Check } from "lucide-react";
import type { Offer, OfferedPlan } from "../../client/offer.ts";
import { OfferTable } from "../../react/offer-table.tsx";
import { Section } from "../design/page.tsx";
import { localOffer, priceText, unitOf } from "../offer-texts.ts";
import { texts } from "../texts.ts";

const t = texts.pricePage;

/** Shows an offer with the layout of the sample price page. Its buttons do nothing. */
export function OfferPreview({ offer }: { offer: Offer }) {
  const local = localOffer(offer);
  return (
    <Section title={t.preview}>
      <div className="price-page">
        {local.plans.length === 0 ? null : (
          <ul className="offer-plans">
            {local.plans.map((plan) => (
              <Plan key={plan.name} offer={local} plan={plan} />
            ))}
          </ul>
        )}
        <details className="offer-table" open={local.plans.length === 0}>
          <summary>{t.compare}</summary>
          <div className="offer-scroll" tabIndex={0} role="region" aria-label={t.compare}>
            <OfferTable offer={local} labels={t.table} />
          </div>
        </details>
      </div>
    </Section>
  );
}

function Plan({ offer, plan }: { offer: Offer; plan: OfferedPlan }) {
  const unit = unitOf(plan);
  const isCurrent = plan.scenario === "current" && offer.current?.expired !== true;
  const scenario = plan.scenario === "current" && !isCurrent ? "choose" : (plan.scenario ?? "choose");
  const choice = plan.contact && !isCurrent ? "contact" : scenario;
  return (
    <li className="offer-plan" data-scenario={plan.scenario}>
      <h3>{plan.name}</h3>
      {plan.description === null ? null : <p className="soft">{plan.description}</p>}
      <p className="offer-price">
        <strong className={plan.contact ? "text" : undefined}>{priceText(plan, offer.currency)}</strong>
        {unit === undefined ? null : <span className="soft">{t.perUnit(unit)}</span>}
      </p>
      <span className={isCurrent ? "b offer-choice" : "b primary offer-choice"}>{t.choices[choice](plan.name)}</span>
      <ul className="offer-included">
        {offer.limits.map(({ id, label }, index) => (
          <Included key={id}>{t.labelled(label, plan.limits[index]?.text ?? "")}</Included>
        ))}
        {offer.features.map(({ id, label }, index) => {
          const { value, text } = plan.features[index] ?? { value: false, text: "" };
          if (text === t.notIncluded || value === 0) return null;
          return <Included key={id}>{value === true ? label : t.labelled(label, text)}</Included>;
        })}
      </ul>
    </li>
  );
}

function Included({ children }: { children: string }) {
  return (
    <li>
      <Check aria-hidden="true" />
      <span>{children}</span>
    </li>
  );
}
