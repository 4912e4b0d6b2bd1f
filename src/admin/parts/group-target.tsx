import { Link } from "react-router";
import { configurationOf, describeConfiguration } from "../../core/change/configuration.ts";
import type { Configuration, ImpactGroup, WireAddOn, WirePricing } from "../answers.ts";
import { differencesBetween } from "../differences.ts";
import { formatList, formatName, formatNumber } from "../format.ts";
import { compiledFrom, refusalOf } from "../pricing.ts";
import { serviceKey, usePricing } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Field } from "../design/field.tsx";
import { Section, Skeleton } from "../design/page.tsx";
import { priceMove } from "../prices.ts";
import { Delta } from "../design/change.tsx";
import { ChangeRows } from "./subscription-preview.tsx";
import { Tag } from "../design/table.tsx";

const t = texts.change;

export const nameOf = ({ plan, addOns }: Configuration): string => describeConfiguration(configurationOf(plan, addOns));

/** Links to a group's contracts in the contract list. */
export function WhoLink({ service, group }: { service: string; group: ImpactGroup }) {
  const { organization } = useHere();
  const { plan } = group.configuration;
  const search = new URLSearchParams({
    service,
    version: group.pricingVersion,
    ...(plan === undefined ? {} : { plan }),
  });
  return (
    <Link
      className="link small"
      to={`/o/${organization.id}/contracts?${search.toString()}`}
      aria-label={t.whoHas(nameOf(group.configuration))}
    >
      {t.who}
    </Link>
  );
}

/** Lists how many contracts each effect applies to; zero counts are hidden. */
export function Counts({ counts }: { counts: ImpactGroup["counts"] }) {
  const shown = Object.entries(t.counts)
    .map(([key, text]) => ({ key, text, count: counts[key as keyof typeof t.counts] ?? 0 }))
    .filter(({ count }) => count > 0);
  if (shown.length === 0) return <p>{counts.affected > 0 ? t.cheaper : t.unchanged}</p>;
  return (
    <ul className="reasons">
      {shown.map(({ key, text, count }) => (
        <li key={key}>
          {text}: <strong>{formatNumber(count)}</strong>
        </li>
      ))}
    </ul>
  );
}

/** Names the budgets of the other version that allow less. They change no value of a limit. */
export function TighterBudgets({ limits }: Pick<ImpactGroup, "limits">) {
  const tighter = limits.flatMap(({ limit, tighterBudgets = [] }) =>
    tighterBudgets.length === 0 ? [] : [{ limit, names: formatList(tighterBudgets) }],
  );
  if (tighter.length === 0) return null;
  return (
    <ul className="reasons">
      {tighter.map(({ limit, names }) => (
        <li key={limit}>{t.tighterBudgets(formatName(limit), names)}</li>
      ))}
    </ul>
  );
}

interface Choosing {
  service: string;
  group: ImpactGroup;
  successor: WirePricing;
  value: Configuration | undefined;
  onChange: (target: Configuration) => void;
  /** Shows the version with the group, for lists with groups of several versions. */
  isVersionShown: boolean;
}

/** Picks the target of one group: the best fit first, alternatives with their gains and losses. */
export function GroupTarget(props: Choosing) {
  const { service, group, value } = props;
  const before = usePricing(service, group.pricingVersion);
  const own = nameOf(group.configuration);
  const name = props.isVersionShown ? t.onVersion(group.pricingVersion, own) : own;
  return (
    <Section
      title={t.group(name, formatNumber(group.counts.contracts))}
      actions={<WhoLink service={service} group={group} />}
    >
      <Counts counts={group.counts} />
      {value === undefined ? <p className="problem">{t.noTarget}</p> : null}
      {before.data === undefined ? <Skeleton /> : <Alternatives {...props} name={name} before={before.data} />}
    </Section>
  );
}

/** Keeps the add-ons that the plan permits, spelled as in the pricing. */
function keptAddOns(
  { addOns }: Configuration,
  plan: string | undefined,
  successor: WirePricing,
): Record<string, number> {
  const kept = Object.entries(addOns).flatMap(([name, quantity]) => {
    const addOn = offeredWith(plan, successor).find((each) => each.name.toLowerCase() === name.toLowerCase());
    return addOn === undefined ? [] : [[addOn.name, quantity] as const];
  });
  return Object.fromEntries(kept);
}

function offeredWith(plan: string | undefined, { addOns }: WirePricing): WireAddOn[] {
  return Object.values(addOns).filter(
    ({ availableFor }) => plan === undefined || availableFor.some((each) => each.toLowerCase() === plan.toLowerCase()),
  );
}

function Alternatives(props: Choosing & { name: string; before: WirePricing }) {
  const { service, group, successor, value, onChange, name } = props;
  const key = serviceKey(service);
  const { configuration, proposal } = group;
  const after = compiledFrom(key, successor);
  const chosenOf = ({ plan, addOns }: Configuration) => ({ plan, addOns });
  const before = { pricing: compiledFrom(key, props.before), choice: chosenOf(configuration) };
  const differences = (target: Configuration) =>
    differencesBetween(before, { pricing: after, choice: chosenOf(target) });
  const isPlan = (target: Configuration | undefined, plan: string) =>
    target?.plan?.toLowerCase() === plan.toLowerCase();
  const alternatives = Object.values(successor.plans).map((plan): [typeof plan, Configuration] => {
    if (isPlan(value, plan.name) && value !== undefined) return [plan, value];
    if (proposal !== null && isPlan(proposal.target, plan.name)) return [plan, proposal.target];
    return [plan, { plan: plan.name, addOns: keptAddOns(configuration, plan.name, successor) }];
  });
  const setAddOn = (addOn: string, text: string) => {
    const { [addOn]: _, ...others } = value?.addOns ?? {};
    onChange({ ...value, addOns: Number(text) > 0 ? { ...others, [addOn]: Number(text) } : others });
  };
  const problem = value === undefined ? undefined : refusalOf(key, successor, chosenOf(value));
  const hasTarget = value !== undefined && (value.plan !== undefined || alternatives.length === 0);
  return (
    <>
      {alternatives.length === 0 ? null : (
        <div className="plans" role="radiogroup" aria-label={t.targets(name)}>
          {alternatives.map(([plan, target]) => {
            const changes = differences(target);
            const count = (effect: string) => changes.filter((each) => each.effect === effect).length;
            const price = priceMove(before, { pricing: after, choice: chosenOf(target) });
            const isChosen = isPlan(value, plan.name);
            return (
              <label key={plan.name} className={isChosen ? "plan on" : "plan"}>
                <input
                  type="radio"
                  className="radio"
                  name={t.targets(name)}
                  aria-label={`${t.targets(name)}: ${plan.name}`}
                  checked={isChosen}
                  onChange={() => onChange(target)}
                />
                <span className="grow">
                  <span className="row">
                    <b className="strong">{nameOf(target)}</b>
                    {proposal !== null && isPlan(proposal.target, plan.name) ? (
                      <Tag tone="good">{proposal.keepsEverything ? t.bestAndKeeps : t.best}</Tag>
                    ) : null}
                    {plan.private ? <Tag>{t.private}</Tag> : null}
                  </span>
                  <span className="small soft">
                    {t.changes(
                      formatNumber(count("more")),
                      formatNumber(count("less")),
                      formatNumber(count("different")),
                    )}
                  </span>
                </span>
                <Delta before={price.before} after={price.after} />
              </label>
            );
          })}
        </div>
      )}
      {hasTarget || alternatives.length === 0 ? (
        <div className="fields">
          {offeredWith(value?.plan, successor).map((addOn) => (
            <Field
              key={addOn.name}
              label={texts.novation.addOn(addOn.name)}
              type="number"
              min={0}
              value={value?.addOns[addOn.name] ?? 0}
              onChange={(text) => setAddOn(addOn.name, text)}
            />
          ))}
        </div>
      ) : null}
      {problem === undefined ? null : <p className="problem">{problem}</p>}
      {hasTarget ? <ChangeRows changes={differences(value)} /> : null}
      <TighterBudgets limits={group.limits} />
    </>
  );
}
