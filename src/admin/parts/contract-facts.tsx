import type { Contract } from "../answers.ts";
import { STATE_TONES, stateOf } from "../contract-list.ts";
import { Id } from "../design/copy.tsx";
import { Status, Tag } from "../design/table.tsx";
import { formatLocalDay, formatDistance, formatMoment, formatName } from "../format.ts";
import { useNow } from "./usage-bar.tsx";
import { choicePrice, formatSum } from "../prices.ts";
import { choiceOf } from "../pricing.ts";
import { usePricings } from "../pricings.ts";
import { texts } from "../texts.ts";

const t = texts.contract;

export function ContractMeta({ contract }: { contract: Contract }) {
  const { userContact, groupId } = contract;
  const state = stateOf(contract, Date.now());
  return (
    <>
      <Status tone={STATE_TONES[state]}>{texts.contracts.state[state]}</Status>
      {contract.trial === undefined ? null : <Tag tone="info">{texts.upcoming.trial}</Tag>}
      <Id id={userContact.userId} />
      {userContact.email === undefined ? null : <span className="not-phone">{userContact.email}</span>}
      {groupId === undefined ? null : <span className="not-phone">{t.inGroup(groupId)}</span>}
    </>
  );
}

/** The figures that the page is about: plan, price, period and age. */
export function ContractFacts({ contract }: { contract: Contract }) {
  const now = useNow();
  const contracted = Object.entries(contract.contractedServices);
  const { pricingOf } = usePricings(contracted);
  const { billingPeriod } = contract;
  const plans = contracted.map(([service, version]) => {
    const { plan, addOns } = choiceOf(contract, service);
    const extras = Object.entries(addOns).map(
      ([name, quantity]) => `+ ${formatName(name)}${quantity === 1 ? "" : ` × ${quantity}`}`,
    );
    return {
      plan: plan ?? texts.novation.noPlan,
      detail: [...extras, `${service} ${version}`].join(", "),
    };
  });
  const prices = contracted.flatMap(([service, version]) => {
    const pricing = pricingOf(service, version);
    return pricing === undefined
      ? []
      : [formatSum(choicePrice(pricing, choiceOf(contract, service)), pricing.pricing.currency)];
  });
  const isOver = Date.parse(billingPeriod.endDate) < now;
  return (
    <dl className="facts">
      <Fact
        name={texts.contracts.plan}
        value={plans.map(({ plan }) => plan).join(" + ") || t.noServices}
        detail={plans.map(({ detail }) => detail).join("; ")}
      />
      <Fact name={texts.pricing.price} value={prices.join(" + ") || "–"} detail={t.perPeriod} />
      <Fact
        name={isOver ? t.periodEnded : t.periodEnds}
        value={formatLocalDay(billingPeriod.endDate)}
        title={formatMoment(billingPeriod.endDate)}
        detail={`${formatDistance(billingPeriod.endDate, now)}, ${billingPeriod.autoRenew ? t.renews : t.runsOut}`}
      />
      <Fact
        name={t.periodBegan}
        value={formatLocalDay(billingPeriod.startDate)}
        title={formatMoment(billingPeriod.startDate)}
        detail={formatDistance(billingPeriod.startDate, now)}
      />
    </dl>
  );
}

function Fact(props: { name: string; value: string; detail: string; title?: string }) {
  return (
    <div className="fact">
      <dt>{props.name}</dt>
      <dd title={props.title}>{props.value}</dd>
      <dd>{props.detail}</dd>
    </div>
  );
}
