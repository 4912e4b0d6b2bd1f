import { CalendarX2 } from "lucide-react";
import type { Contract, ScheduledChange } from "../answers.ts";
import { call, path } from "../api.ts";
import { Delta } from "../design/change.tsx";
import { Failed, Note, Section } from "../design/page.tsx";
import { formatLocalDay, formatDistance, formatMoment } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk, useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { actorName } from "./custom-terms.tsx";
import { plansAfter, plansOf, plansThen } from "./plan-names.ts";
import { useNow } from "./usage-bar.tsx";

const t = texts.upcoming;

/** Cancels a pending change. Nobody may cancel the end of a trial. */
export function useCancel(change: ScheduledChange) {
  const { base, may } = useHere();
  const place =
    change.kind === "availability"
      ? path`/services/${change.serviceName}/scheduled/${change.id}`
      : path`/contracts/${change.userId}/scheduled/${change.id}`;
  const cancel = useChange({
    change: () => call("DELETE", base + place),
    touches: () => [`${base}/contracts`, `${base}/services`, `${base}/scheduled`],
    done: () => t.cancelled,
  });
  return { cancel, mayCancel: change.state === "pending" && change.kind !== "trialEnd" && may("DELETE", place) };
}

/** A line under a change: when it comes, why, and who scheduled it. */
export function describeChange(change: ScheduledChange): string {
  const reason = change.kind === "availability" ? change.overrideReason : change.reason;
  const by = t.by(actorName(change));
  return reason === null ? by : `“${reason}”, ${by}`;
}

/** The pending change of a contract, with its way back. Nothing without one. */
export function Upcoming({ contract }: { contract: Contract }) {
  const { scheduled } = contract;
  return scheduled === undefined ? null : <Pending contract={contract} scheduled={scheduled} />;
}

function Pending({ contract, scheduled }: { contract: Contract; scheduled: NonNullable<Contract["scheduled"]> }) {
  const now = useNow();
  const { cancel, mayCancel } = useCancel(scheduled);
  return (
    <Section
      title={t.section}
      actions={
        mayCancel && contract.asOf === undefined ? (
          <button
            type="button"
            className="b plain small"
            disabled={cancel.isPending}
            onClick={() => cancel.mutate(undefined)}
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
            {formatLocalDay(scheduled.at)}
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
            {t.until(formatLocalDay(trial.until))}
          </b>
          <Delta before={plansOf(contract)} after={plansAfter(trial.then)} />
        </div>
        <p className="small soft">{t.trialEnds(formatDistance(trial.until, now))}</p>
      </div>
    </Section>
  );
}

/** The pending archivings and activations of a service, each with its way back. Nothing without one. */
export function ServiceUpcoming({ serviceName }: { serviceName: string }) {
  const { base, may } = useHere();
  const place = path`/services/${serviceName}/scheduled`;
  const changes = useAsk<ScheduledChange[]>(may("GET", place) ? base + place : undefined);
  const pending = (changes.data ?? []).filter(({ state }) => state === "pending" || state === "blocked");
  if (pending.length === 0) return null;
  return (
    <Section title={t.title}>
      {pending.map((change) => (
        <ServiceChange key={change.id} change={change} />
      ))}
    </Section>
  );
}

function ServiceChange({ change }: { change: ScheduledChange }) {
  const now = useNow();
  const { cancel, mayCancel } = useCancel(change);
  return (
    <div className="term">
      <div className="row between">
        <b className="strong" title={formatMoment(change.at)}>
          {formatLocalDay(change.at)}
        </b>
        <span className="row">
          {plansThen(change)}
          {mayCancel ? (
            <button
              type="button"
              className="b plain small"
              disabled={cancel.isPending}
              onClick={() => cancel.mutate(undefined)}
            >
              <CalendarX2 />
              {t.cancel}
            </button>
          ) : null}
        </span>
      </div>
      {change.state === "blocked" ? <Note tone="bad">{change.why}</Note> : null}
      <p className="small soft">
        {formatDistance(change.at, now)}. {describeChange(change)}
      </p>
      <Failed error={cancel.error} />
    </div>
  );
}
