import { useState } from "react";
import type { Contract, Subscription } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm, Sheet } from "../design/dialog.tsx";
import { Failed } from "../design/page.tsx";
import { formatNumber } from "../format.ts";
import { choiceOf, refusalOf } from "../pricing.ts";
import { useChange } from "../queries.ts";
import { usePricingAnswers } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";
import { subscriptionOf } from "./bulk-novation.tsx";
import { SubscriptionEditor } from "./subscription-editor.tsx";
import { type Outcome, OutcomeView, useOutcome } from "./subscription-preview.tsx";

const t = texts.contract;

/** Changes one contract's plan. Consequences stand beside the choice; a change that takes something asks once more. */
export function ChangePlan(props: { contract: Contract; preset: Subscription; onClose: () => void }) {
  const { contract, preset, onClose } = props;
  const { base } = useHere();
  const [target, setTarget] = useState(() => subscriptionOf(preset));
  const [isAsking, setIsAsking] = useState(false);
  const { userId } = contract.userContact;
  const name = nameOf(contract);
  const outcome = useOutcome(contract, target);
  const answers = usePricingAnswers(Object.entries(target.contractedServices));
  const refused = Object.keys(target.contractedServices).some((service) => {
    const pricing = answers(service);
    return pricing !== undefined && refusalOf(service, pricing, choiceOf(target, service)) !== undefined;
  });
  const novate = useChange({
    change: (_: undefined, key) => call("PUT", base + path`/contracts/${userId}`, { key, body: target }),
    touches: () => [`${base}/contracts`],
    done: () => t.novated(name, plansOf(target)),
    after: onClose,
  });
  const isSame = JSON.stringify(target) === JSON.stringify(subscriptionOf(contract));
  const isReady = !isSame && !refused && outcome !== undefined && !novate.isPending;
  const losses = lossesOf(outcome);
  const label = t.moveTo(plansOf(target), pricesOf(outcome));
  return (
    <Sheet
      title={t.change}
      subject={`${name}, ${plansOf(contract)}`}
      onClose={onClose}
      outcome={<OutcomeView outcome={outcome} name={name} />}
      footer={
        <>
          <span className="grow small soft">{isSame ? t.chooseFirst : refused ? t.notValid : t.fromNowOn}</span>
          <button type="button" className="b" onClick={onClose}>
            {texts.common.cancel}
          </button>
          <button
            type="button"
            className="b primary"
            disabled={!isReady}
            onClick={() => (losses > 0 ? setIsAsking(true) : novate.mutate(undefined))}
          >
            {label}
          </button>
        </>
      }
    >
      <SubscriptionEditor value={target} onChange={setTarget} current={contract} />
      <Failed error={isAsking ? null : novate.error} />
      {isAsking ? (
        <Confirm
          title={t.moveQuestion(name, plansOf(target))}
          action={t.moveAction(plansOf(target))}
          keep={t.stay(plansOf(contract))}
          change={novate}
          onClose={() => setIsAsking(false)}
        >
          <p>{t.losesOnMove(name, formatNumber(losses))}</p>
          <OutcomeView outcome={outcome} name={name} />
        </Confirm>
      ) : null}
    </Sheet>
  );
}

/** Names the plans of a subscription: `PRO`, or `PRO and BASIC` for two services. */
export function plansOf({ contractedServices, subscriptionPlans }: Subscription): string {
  const names = Object.keys(contractedServices).map((service) => subscriptionPlans[service] ?? texts.novation.noPlan);
  return names.length === 0 ? texts.novation.notContracted : names.join(" + ");
}

/** Counts what a change takes: less of something, and limits that usage would exceed. */
const lossesOf = (outcome: Outcome | undefined): number =>
  outcome === undefined ? 0 : outcome.changes.filter(({ effect }) => effect === "less").length + outcome.over.length;

/** Formats the prices before and after; empty where they do not change or cannot be compared. */
function pricesOf(outcome: Outcome | undefined): string {
  const [price, ...others] = outcome?.prices ?? [];
  return price === undefined || others.length > 0 || price.effect === "same" ? "" : `${price.before} → ${price.after}`;
}
