import type { Service, Subscription, WireAddOn, WirePricing } from "../answers.ts";
import { choiceOf, refusalOf } from "../pricing.ts";
import { serviceKey, usePricing, useServices } from "../services.ts";
import { texts } from "../texts.ts";
import { Field, Select } from "./field.tsx";
import { Loaded } from "./page.tsx";

const t = texts.novation;

export const NOTHING: Subscription = { contractedServices: {}, subscriptionPlans: {}, subscriptionAddOns: {} };

/** Picks versions, plans and add-ons. The server's own rules check the choice. */
export function SubscriptionEditor(props: { value: Subscription; onChange: (value: Subscription) => void }) {
  const services = useServices();
  return (
    <Loaded query={services}>
      {(all) => (
        <div className="subscription-editor">
          {all.map((service) => (
            <ServiceChoice key={service.id} service={service} {...props} />
          ))}
        </div>
      )}
    </Loaded>
  );
}

function ServiceChoice(props: { service: Service; value: Subscription; onChange: (value: Subscription) => void }) {
  const { service, value, onChange } = props;
  const key = serviceKey(service.name);
  const version = value.contractedServices[key];
  const pricing = usePricing(service.name, version);
  const versions = [...new Set([...Object.keys(service.activePricings), ...(version === undefined ? [] : [version])])];
  const choose = (chosen: string) => {
    const { [key]: _, ...services } = value.contractedServices;
    const { [key]: plan, ...plans } = value.subscriptionPlans;
    const { [key]: addOns, ...others } = value.subscriptionAddOns;
    if (chosen === "") {
      onChange({ contractedServices: services, subscriptionPlans: plans, subscriptionAddOns: others });
      return;
    }
    onChange({
      contractedServices: { ...services, [key]: chosen },
      subscriptionPlans: plan === undefined ? plans : { ...plans, [key]: plan },
      subscriptionAddOns: addOns === undefined ? others : { ...others, [key]: addOns },
    });
  };
  return (
    <fieldset>
      <legend>{service.name}</legend>
      <div className="row">
        <Select
          label={`${texts.contracts.version}: ${service.name}`}
          value={version ?? ""}
          onChange={choose}
          options={[["", t.notContracted], ...versions.map((each) => [each, each] as const)]}
        />
        {pricing.data === undefined ? null : <PlanChoice {...props} pricing={pricing.data} serviceKey={key} />}
      </div>
      {pricing.data === undefined ? null : <AddOnChoices {...props} pricing={pricing.data} serviceKey={key} />}
    </fieldset>
  );
}

interface Chosen {
  service: Service;
  value: Subscription;
  onChange: (value: Subscription) => void;
  pricing: WirePricing;
  serviceKey: string;
}

function PlanChoice({ service, value, onChange, pricing, serviceKey: key }: Chosen) {
  const plans = Object.keys(pricing.plans);
  if (plans.length === 0) return null;
  const chosen = value.subscriptionPlans[key];
  const known = plans.find((plan) => plan.toLowerCase() === chosen?.toLowerCase());
  const choose = (plan: string) => {
    const { [key]: _, ...others } = value.subscriptionPlans;
    onChange({ ...value, subscriptionPlans: plan === "" ? others : { ...others, [key]: plan } });
  };
  return (
    <Select
      label={`${texts.contracts.plan}: ${service.name}`}
      value={known ?? ""}
      onChange={choose}
      problem={refusalOf(key, pricing, choiceOf(value, key))}
      options={[["", t.noPlan], ...plans.map((plan) => [plan, plan] as const)]}
    />
  );
}

function AddOnChoices({ value, onChange, pricing, serviceKey: key }: Chosen) {
  const plan = value.subscriptionPlans[key];
  const chosen = value.subscriptionAddOns[key] ?? {};
  const isOffered = (addOn: WireAddOn) =>
    chosen[addOn.name] !== undefined ||
    plan === undefined ||
    addOn.availableFor.some((each) => each.toLowerCase() === plan.toLowerCase());
  const set = (name: string, text: string) => {
    const { [name]: _, ...others } = chosen;
    const quantity = Number(text);
    const next = text === "" || quantity === 0 ? others : { ...others, [name]: quantity };
    const { [key]: __, ...services } = value.subscriptionAddOns;
    onChange({
      ...value,
      subscriptionAddOns: Object.keys(next).length === 0 ? services : { ...services, [key]: next },
    });
  };
  const offered = Object.values(pricing.addOns).filter(isOffered);
  if (offered.length === 0) return null;
  return (
    <div className="row">
      {offered.map((addOn) => (
        <Field
          key={addOn.name}
          label={t.addOn(addOn.name)}
          type="number"
          min={0}
          step={1}
          value={chosen[addOn.name] ?? 0}
          onChange={(text) => set(addOn.name, text)}
        />
      ))}
    </div>
  );
}
