import { useId, useState } from "react";
import type { Contract, Subscription } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm, Sheet } from "../design/dialog.tsx";
import { Check, Field, Segment } from "../design/field.tsx";
import { Failed } from "../design/page.tsx";
import { formatLocalDay, formatNumber, momentOf } from "../format.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";
import { OverruledNote } from "./followed.tsx";
import { useMissing } from "./missing-choice.ts";
import { plansOf } from "./plan-names.ts";
import { subscriptionOf } from "./bulk-novation.tsx";
import { SubscriptionEditor } from "./subscription-editor.tsx";
import { type Outcome, OutcomeView, useOutcome } from "./subscription-preview.tsx";

const t = texts.contract;
const later = texts.upcoming;

/** Moment of a change: at once, at the end of the period, or at the start of a day. */
type When = "now" | "periodEnd" | "day";

/** Changes one contract's plan, now or later. Consequences stand beside the choice; a change that takes something asks once more. */
export function ChangePlan(props: { contract: Contract; preset: Subscription; onClose: () => void }) {
  const { contract, preset, onClose } = props;
  const { base, may } = useHere();
  const [target, setTarget] = useState(() => subscriptionOf(preset));
  const [isAsking, setIsAsking] = useState(false);
  const [when, setWhen] = useState<When>("now");
  const [day, setDay] = useState("");
  const [reason, setReason] = useState("");
  const [cancels, setCancels] = useState(false);
  const { userId } = contract.userContact;
  const name = nameOf(contract);
  const outcome = useOutcome(contract, target);
  const id = useId();
  const lacking = useMissing(target);
  const novate = useChange({
    change: () =>
      call("PUT", base + path`/contracts/${userId}`, {
        query: cancels ? { cancelScheduled: true } : {},
        body: target,
      }),
    touches: () => [`${base}/contracts`, `${base}/scheduled`],
    done: () => t.novated(name, plansOf(target)),
    after: onClose,
  });
  const scheduled = path`/contracts/${userId}/scheduled`;
  const at = when === "day" ? (momentOf(day) ?? "") : when;
  const schedule = useChange({
    change: (_: undefined, attempt) =>
      call("POST", base + scheduled, {
        headers: { "idempotency-key": attempt },
        body: { ...target, at, ...(reason.trim() === "" ? {} : { reason }) },
      }),
    touches: () => [`${base}/contracts`, `${base}/scheduled`],
    done: () => later.saved(name, plansOf(target)),
    after: onClose,
  });
  const pending = contract.scheduled;
  const isLater = when !== "now";
  const maySchedule = pending === undefined && may("POST", scheduled);
  const isOver = Date.parse(contract.billingPeriod.endDate) < Date.now() && !contract.billingPeriod.autoRenew;
  const isSame = JSON.stringify(target) === JSON.stringify(subscriptionOf(contract));
  const dayFirst = at === "" ? later.dayFirst : undefined;
  const missing = lacking ?? (isSame ? t.chooseFirst : outcome === undefined ? texts.common.loading : dayFirst);
  const losses = lossesOf(outcome);
  const label = isLater ? later.schedule(plansOf(target)) : t.moveTo(plansOf(target), pricesOf(outcome));
  return (
    <Sheet
      title={t.change}
      subject={`${name}, ${plansOf(contract)}`}
      onClose={onClose}
      isChanged={!isSame || isLater || reason !== "" || cancels}
      outcome={<OutcomeView outcome={outcome} name={name} />}
      footer={
        <>
          <span id={id} className="grow small soft">
            {missing ?? (isLater ? later.onThatDay : t.fromNowOn)}
          </span>
          <button type="button" className="b" onClick={onClose}>
            {texts.common.cancel}
          </button>
          <button
            type="button"
            className="b primary"
            disabled={missing !== undefined || novate.isPending || schedule.isPending}
            aria-describedby={id}
            onClick={() =>
              isLater ? schedule.mutate(undefined) : losses > 0 ? setIsAsking(true) : novate.mutate(undefined)
            }
          >
            {label}
          </button>
        </>
      }
    >
      <OverruledNote contract={contract} />
      <SubscriptionEditor value={target} onChange={setTarget} current={contract} />
      {maySchedule ? (
        <Segment
          label={later.when}
          value={when}
          onChange={setWhen}
          options={[
            ["now", later.now],
            ...(isOver ? [] : ([["periodEnd", later.atPeriodEnd]] as const)),
            ["day", later.onDay],
          ]}
        />
      ) : null}
      {isLater ? (
        <div className="fields">
          {when === "day" ? <Field label={later.day} type="date" value={day} onChange={setDay} required /> : null}
          <Field label={later.reason} hint={later.reasonHint} value={reason} onChange={setReason} />
        </div>
      ) : null}
      {pending === undefined ? null : (
        <Check label={later.alsoCancel(formatLocalDay(pending.at))} checked={cancels} onChange={setCancels} />
      )}
      <Failed error={isAsking ? null : (novate.error ?? schedule.error)} />
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

/** Counts what a change takes: less of something, and limits that usage would exceed. */
const lossesOf = (outcome: Outcome | undefined): number =>
  outcome === undefined ? 0 : outcome.changes.filter(({ effect }) => effect === "less").length + outcome.over.length;

/** Formats the prices before and after; empty where they do not change or cannot be compared. */
function pricesOf(outcome: Outcome | undefined): string {
  const [price, ...others] = outcome?.prices ?? [];
  return price === undefined || others.length > 0 || price.effect === "same" ? "" : `${price.before} → ${price.after}`;
}
