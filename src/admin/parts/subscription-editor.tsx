import { Search } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import { flushSync } from "react-dom";
import type { Service, Subscription, WirePricing } from "../answers.ts";
import { Empty, Loaded } from "../design/page.tsx";
import { Tag } from "../design/table.tsx";
import { formatName, formatNumber, formatPrice, formatValue } from "../format.ts";
import { choiceOf, refusalOf } from "../pricing.ts";
import { serviceKey, useNewestVersion, usePricing, useServices } from "../services.ts";
import { texts } from "../texts.ts";
import { AddOnChoices } from "./add-on-choices.tsx";
import { VersionChoice } from "./version-choice.tsx";

const t = texts.novation;

export const NOTHING: Subscription = { contractedServices: {}, subscriptionPlans: {}, subscriptionAddOns: {} };

/** A subscription that is being put together. */
export interface Editing {
  value: Subscription;
  onChange: (value: Subscription) => void;
  /** The subscription to be changed, whose plans are marked. */
  current?: Subscription;
  /** Shows contracted services alone, on their versions. */
  isVersionFixed?: boolean;
}

/**
 * Picks versions, plans and add-ons. The server's own rules check the choice. The only service of an organization is
 * chosen from the start, on its newest version.
 */
export function SubscriptionEditor(props: Editing) {
  const services = useServices();
  useOnlyService(services.data, props);
  useWithoutDeleted(services.data, props);
  return <Loaded query={services}>{(all) => <ServiceChoices all={all} {...props} />}</Loaded>;
}

/** Services without a search, and those that each click shows more. */
const SHOWN_AT_ONCE = 8;

function ServiceChoices({ all, ...props }: Editing & { all: readonly Service[] }) {
  const [text, setText] = useState("");
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const [removed, setRemoved] = useState<readonly string[]>([]);
  const list = useRef<HTMLDivElement>(null);
  const isContracted = ({ name }: Service) => props.value.contractedServices[serviceKey(name)] !== undefined;
  const isHeld = ({ name }: Service) => props.current?.contractedServices[serviceKey(name)] !== undefined;
  const isLong = props.isVersionFixed !== true && all.length > SHOWN_AT_ONCE;
  const isRemoved = ({ name }: Service) => removed.includes(serviceKey(name));
  // Show contracted services first. In a long list, those chosen and removed here stay above the search.
  const isFirst = (service: Service) => isHeld(service) || (isLong && (isContracted(service) || isRemoved(service)));
  const others = all.filter((service) => !isFirst(service) && (props.isVersionFixed !== true || isContracted(service)));
  const found = others.filter(({ name }) => name.toLowerCase().includes(text.trim().toLowerCase()));
  const hidden = isLong ? found.length - shown : 0;
  const change = (value: Subscription) => {
    const gone = Object.keys(props.value.contractedServices).filter(
      (key) => value.contractedServices[key] === undefined,
    );
    if (gone.length > 0) setRemoved([...removed, ...gone]);
    props.onChange(value);
  };
  const choice = (service: Service) => (
    <ServiceChoice key={service.id} service={service} {...props} onChange={change} />
  );
  const first = all.filter((service) => isFirst(service));
  const showMore = () => {
    flushSync(() => setShown(shown + SHOWN_AT_ONCE));
    // The button that had the focus may be gone.
    list.current?.querySelectorAll("fieldset")[first.length + shown]?.querySelector("button")?.focus();
  };
  // One list of keyed elements: a service that moves above the search keeps its focus.
  return (
    <div className="stack editor-services" ref={list}>
      {[
        ...first.map(choice),
        isLong ? <ServiceSearch key="search" text={text} onText={setText} /> : null,
        ...(isLong ? found.slice(0, shown) : others).map(choice),
      ]}
      {isLong && found.length === 0 ? <Empty>{texts.services.noMatch}</Empty> : null}
      {hidden <= 0 ? null : (
        <div className="actions">
          <button type="button" className="b" onClick={showMore}>
            {texts.change.more(formatNumber(Math.min(hidden, SHOWN_AT_ONCE)))}
          </button>
        </div>
      )}
    </div>
  );
}

function ServiceSearch({ text, onText }: { text: string; onText: (text: string) => void }) {
  return (
    <span className="in">
      <Search />
      <input
        type="search"
        placeholder={texts.services.search}
        aria-label={texts.services.search}
        value={text}
        onChange={({ target }) => onText(target.value)}
        onKeyDown={(event) => {
          // Enter would submit the form around the editor.
          if (event.key === "Enter") event.preventDefault();
        }}
      />
    </span>
  );
}

/** Chooses the only service once, unless a subscription exists. */
function useOnlyService(
  services: readonly Service[] | undefined,
  { value, onChange, current, isVersionFixed }: Editing,
) {
  const newestOf = useNewestVersion();
  const isDone = useRef(
    current !== undefined || isVersionFixed === true || Object.keys(value.contractedServices).length > 0,
  );
  const [only, ...others] = services ?? [];
  useEffect(() => {
    if (isDone.current || only === undefined) return;
    isDone.current = true;
    if (others.length > 0) return;
    void newestOf(only).then((version) => {
      if (version !== undefined) onChange({ ...NOTHING, contractedServices: { [serviceKey(only.name)]: version } });
    });
  });
}

/** Takes a service out of the choice when it leaves the list: nothing would show it, and the server would refuse it. */
function useWithoutDeleted(services: readonly Service[] | undefined, { value, onChange }: Editing) {
  const before = useRef(services);
  useEffect(() => {
    const isListed = (key: string, list: readonly Service[] = []) => list.some(({ name }) => serviceKey(name) === key);
    const deleted = Object.keys(value.contractedServices).filter(
      (key) => isListed(key, before.current) && !isListed(key, services),
    );
    before.current = services;
    if (deleted.length === 0) return;
    const rest = <T,>(of: Readonly<Record<string, T>>) =>
      Object.fromEntries(Object.entries(of).filter(([key]) => !deleted.includes(key)));
    onChange({
      contractedServices: rest(value.contractedServices),
      subscriptionPlans: rest(value.subscriptionPlans),
      subscriptionAddOns: rest(value.subscriptionAddOns),
    });
  });
}

function ServiceChoice(props: Editing & { service: Service }) {
  const { service, value } = props;
  const key = serviceKey(service.name);
  const version = value.contractedServices[key];
  const pricing = usePricing(service.name, version);
  return (
    <fieldset className="stack">
      <legend className="visually-hidden">{service.name}</legend>
      <div className="row between service-version">
        <h3 aria-hidden="true">{service.name}</h3>
        {props.isVersionFixed === true ? null : <VersionChoice {...props} />}
      </div>
      {pricing.data === undefined ? null : (
        <>
          <PlanChoice {...props} pricing={pricing.data} serviceKey={key} />
          <AddOnChoices {...props} pricing={pricing.data} serviceKey={key} />
          <Refusal pricing={pricing.data} serviceKey={key} value={value} />
        </>
      )}
    </fieldset>
  );
}

type Chosen = Editing & { service: Service; pricing: WirePricing; serviceKey: string };

function Refusal({ pricing, serviceKey: key, value }: Pick<Chosen, "pricing" | "serviceKey" | "value">) {
  const refusal = refusalOf(key, pricing, choiceOf(value, key));
  return refusal === undefined ? null : (
    <p className="problem" role="alert">
      {refusal}
    </p>
  );
}

function PlanChoice({ service, value, onChange, current, pricing, serviceKey: key }: Chosen) {
  const name = useId();
  const plans = Object.values(pricing.plans);
  if (plans.length === 0) return null;
  const chosen = value.subscriptionPlans[key]?.toLowerCase();
  const choose = (plan: string) => {
    const { [key]: _, ...others } = value.subscriptionPlans;
    onChange({ ...value, subscriptionPlans: { ...others, [key]: plan } });
  };
  return (
    <div className="plans" role="radiogroup" aria-label={`${texts.contracts.plan}: ${service.name}`}>
      {plans.map((plan) => {
        const isChosen = plan.name.toLowerCase() === chosen;
        const isCurrent = current?.subscriptionPlans[key]?.toLowerCase() === plan.name.toLowerCase();
        return (
          <label key={plan.name} className={isChosen ? "plan on" : "plan"}>
            <input type="radio" className="radio" name={name} checked={isChosen} onChange={() => choose(plan.name)} />
            <span className="grow">
              <span className="row">
                <b className="strong">{plan.name}</b>
                {isCurrent ? <Tag>{t.current}</Tag> : null}
                {plan.private ? <Tag>{texts.pricing.private}</Tag> : null}
              </span>
              <span className="small soft">{plan.description ?? limitsOf(pricing, plan)}</span>
            </span>
            <b className="strong num">{formatPrice(plan.price, pricing.currency)}</b>
          </label>
        );
      })}
    </div>
  );
}

const SHOWN_LIMITS = 3;

/** Says what a plan without a description gives: its first limits. */
function limitsOf(pricing: WirePricing, { usageLimits }: WirePricing["plans"][string]): string {
  return Object.values(pricing.usageLimits)
    .slice(0, SHOWN_LIMITS)
    .map(({ name, defaultValue }) => t.limitOf(formatName(name), formatValue(usageLimits[name] ?? defaultValue)))
    .join(", ");
}
