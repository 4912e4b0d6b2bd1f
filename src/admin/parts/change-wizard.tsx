import { useId, useState } from "react";
import type { Impact, ImpactGroup, ImpactReport } from "../answers.ts";
import { Refused } from "../api.ts";
import { formatNumber } from "../format.ts";
import {
  type ChangeRequest,
  type Changing,
  groupKey,
  type GroupTarget as Target,
  type Progress,
  useImpact,
} from "../impact.ts";
import { texts } from "../texts.ts";
import { GateResults } from "./gate-verdict.tsx";
import { Counts } from "./group-target.tsx";
import { ReplayLater } from "./replay-later.tsx";
import { Failed, Section, Skeleton } from "../design/page.tsx";
import { ChangeGroups } from "./change-groups.tsx";
import { confirmText, ExecuteChange, ChangeResult } from "./change-execution.tsx";

const t = texts.change;

/** Wizard for a change: affected contracts, target of each group, gate, typed confirmation, one call, result. */
export function ChangeWizard(props: Changing) {
  const { service, change } = props;
  const [chosen, setChosen] = useState<Readonly<Record<string, Target>>>({});
  // Keep the report that the user confirmed: events of this very change must not alter it.
  const [asked, setAsked] = useState<Impact>();
  const [done, setDone] = useState<ImpactReport>();
  const [round, setRound] = useState(0);
  const groups = Object.values(chosen);
  const isFrozen = asked !== undefined || done !== undefined;
  const { query, progress } = useImpact(service, change, { groups, round, isFrozen });
  // A chosen group may have lost its last contract, so restart without choices.
  const restart = () => {
    if (query.error instanceof Refused && query.error.status !== 0) setChosen({});
    setRound(round + 1);
  };
  const close = (hasFailed: boolean) => {
    setAsked(undefined);
    if (hasFailed) void query.refetch();
  };
  const impact = query.data;
  if (done !== undefined) return <ChangeResult {...props} report={done} />;
  return (
    <>
      <Working isBusy={query.isFetching} progress={progress} />
      {query.isFetching ? null : <Failed error={query.error} onRetry={restart} />}
      {impact === undefined ? (
        query.isFetching && <Skeleton lines={8} />
      ) : (
        <>
          <Summary change={change} impact={impact} />
          <ChangeGroups
            {...props}
            impact={impact}
            chosen={chosen}
            onChoose={({ pricingVersion, configuration }, target) =>
              setChosen((before) => ({
                ...before,
                [groupKey({ pricingVersion, configuration })]: { pricingVersion, configuration, target },
              }))
            }
          />
          {change.action === "archive" && impact.targetVersion !== null ? (
            <ReplayLater
              key={impact.targetVersion}
              service={service}
              tried={{ pricingVersion: impact.targetVersion }}
            />
          ) : null}
          {impact.gate.rules.length === 0 ? null : (
            <Section title={t.gate}>
              <GateResults gate={impact.gate} />
            </Section>
          )}
          <Start
            {...props}
            impact={impact}
            isBusy={query.isFetching || query.isError}
            onStart={() => setAsked(impact)}
          />
        </>
      )}
      {asked === undefined ? null : (
        <ExecuteChange {...props} impact={asked} groups={groups} onClose={close} onDone={setDone} />
      )}
    </>
  );
}

/** Shows the server's progress. Its space is reserved, to avoid a layout shift. */
function Working({ isBusy, progress }: { isBusy: boolean; progress: Progress | undefined }) {
  const { contracts, of, configurations, ofConfigurations = 0 }: Progress = progress ?? { contracts: 0, of: 0 };
  const [done, all] = configurations === undefined ? [contracts, of] : [configurations, ofConfigurations];
  const sentence = configurations === undefined ? t.progress : t.configurationsProgress;
  return (
    <div className="progress-line" role="status">
      {isBusy ? (
        <label>
          {all === 0 ? t.working : sentence(formatNumber(done), formatNumber(all))}{" "}
          <progress {...(all === 0 ? {} : { value: done, max: all })} />
        </label>
      ) : null}
    </div>
  );
}

function Summary({ change, impact }: { change: ChangeRequest; impact: Impact }) {
  const { counts, groups, targetVersion, unforeseen } = impact;
  if (counts.contracts === 0) return <p>{t.nobody[change.action]}</p>;
  return (
    <Section title={t.happens}>
      <p>
        {t.affected(formatNumber(counts.contracts), formatNumber(groups.length))}{" "}
        {targetVersion === null ? null : `${t.successor(targetVersion)} ${t.usage[impact.usage]}`}
      </p>
      <Counts counts={counts} />
      {unforeseen.length === 0 ? null : <p className="hint">{t.unforeseen(unforeseen.join(", "))}</p>}
    </Section>
  );
}

function Start(props: Changing & { impact: Impact; isBusy: boolean; onStart: () => void }) {
  const { change, impact } = props;
  const id = useId();
  const isComplete =
    change.action === "disable" || change.action === "activate" || impact.groups.every((group) => isPlaced(group));
  const isNothing = change.action === "novation" && impact.counts.contracts === 0;
  return (
    <footer className="foot">
      <span id={id} className="grow small soft">
        {isNothing ? t.nothingToMove : isComplete ? t.nothingYet : t.incomplete}
      </span>
      <button
        type="button"
        className={change.action === "activate" ? "b primary" : "b danger"}
        disabled={!isComplete || isNothing || props.isBusy}
        aria-describedby={id}
        onClick={props.onStart}
      >
        {confirmText(props)}
      </button>
    </footer>
  );
}

const isPlaced = ({ target, problem }: ImpactGroup): boolean => target !== null && problem === null;
