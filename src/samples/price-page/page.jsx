import { createRoot } from "react-dom/client";
import { Offer, OfferTable, publicOffer } from "faregate/react";

/*
 * A price page over a published offer. Copy it with style.css, and change what you like: plans and prices come from
 * your pricing.
 */

const place = document.getElementById("prices");
const { url, organization, service } = place.dataset;
const source = publicOffer({ url, organizationId: organization, service });
const addressOf = ({ plan }) => `/sign-up?plan=${encodeURIComponent(plan ?? "")}`;

function Prices() {
  return (
    <Offer service={service} source={source}>
      {(offer) => (
        <>
          <ul className="plans">
            {offer.plans.map((plan) => (
              <Plan key={plan.name} offer={offer} plan={plan} />
            ))}
          </ul>
          <details className="comparison">
            <summary>Compare all features</summary>
            <div className="scroller" tabIndex={0} role="region" aria-label="All features">
              <OfferTable offer={offer} />
            </div>
          </details>
        </>
      )}
    </Offer>
  );
}

function Plan({ offer, plan }) {
  const features = offer.features.filter((_, index) => plan.features[index].value === true);
  const [amount, ...per] = plan.price.text.split(" / ");
  return (
    <li className="plan">
      <h2>{plan.name}</h2>
      {plan.description && <p className="description">{plan.description}</p>}
      <p className="price">
        <strong>{amount}</strong>
        {per.length > 0 && <span> / {per.join(" / ")}</span>}
      </p>
      <a className="choose" href={addressOf(plan.select)}>
        {plan.contact ? "Contact us" : `Choose ${plan.name}`}
      </a>
      <ul className="included">
        {offer.limits.map((limit, index) => (
          <li key={limit.id}>
            {limit.label}: {plan.limits[index].text}
          </li>
        ))}
        {features.map((feature) => (
          <li key={feature.id}>{feature.label}</li>
        ))}
      </ul>
    </li>
  );
}

createRoot(place).render(<Prices />);
