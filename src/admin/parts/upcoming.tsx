import { CalendarX2 } from "lucide-react";
import type { Contract, ScheduledChange } from "../answers.ts";
import { call, path } from "../api.ts";
import { Delta } from "../design/change.tsx";
import { Failed, Section } from "../design/page.tsx";
import { formatDay, formatDistance, formatMoment } from "../format.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { actorName } from "./custom-terms.tsx";
import { plansAfter, plansOf } from "./plan-names.ts";
import { useNow } from "./usage-bar.tsx";

const t = texts.upcoming;

/** Cancels pending changes. Undefined if this user may not. */
export function useCancel(userId: string) {
  const { base, may } = useHere();
  const placeOf = (id: string) => path`/contracts/${userId}/scheduled/${id}`;
  const cancel = useChange({
    change: (id: string, key) => call("DELETE", base + placeOf(id), { key }),
    touches: () => [`${base}/contracts`, `${base}/scheduled`],
    done: () => t.cancelled,
  });
  return { cancel, mayCancel: may("DELETE", placeOf("x")) };
}

/** A line under a change: when it comes, why, and who scheduled it. */
export function describeChange({ reason, ...change }: ScheduledChange): string {
  const by = t.by(actorName(change));
  return reason === null ? by : `“${reason}”, ${by}`;
}

/** The pending change of a contract, with its way back. Nothing without one. */
export function Upcoming({ contract }: { contract: Contract }) {
  const now = useNow();
  const { scheduled } = contract;
  const { cancel, mayCancel } = useCancel(contract.userContact.userId);
  if (scheduled === undefined) return null;
  return (
    <Section
      title={t.section}
      actions={
        mayCancel && contract.asOf === undefined ? (
          <button
            type="button"
            className="b plain small"
            disabled={cancel.isPending}
            onClick={() => cancel.mutate(scheduled.id)}
          >
            <CalendarX2 />
            {t.cancel}
          </button>
        ) : null
      }
    >
      <div className="term">
        <div className="row between">
          <b className="strong" title={formatMoment(scheduled.at)}>
            {formatDay(scheduled.at)}
          </b>
          <Delta before={plansOf(contract)} after={plansOf(scheduled)} />
        </div>
        <p className="small soft">
          {scheduled.atPeriodEnd ? t.atPeriodEnd : ""} {formatDistance(scheduled.at, now)}. {describeChange(scheduled)}
        </p>
      </div>
      <Failed error={cancel.error} />
    </Section>
  );
}

/** The trial of a contract, and what follows it. Nothing without one. */
export function TrialTerms({ contract }: { contract: Contract }) {
  const now = useNow();
  const { trial } = contract;
  if (trial === undefined) return null;
  return (
    <Section title={t.trial}>
      <div className="term">
        <div className="row between">
          <b className="strong" title={formatMoment(trial.until)}>
            {t.until(formatDay(trial.until))}
          </b>
          <Delta before={plansOf(contract)} after={plansAfter(trial.then)} />
        </div>
        <p className="small soft">{t.trialEnds(formatDistance(trial.until, now))}</p>
      </div>
    </Section>
  );
}
