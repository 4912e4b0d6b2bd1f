import { useId, useState } from "react";
import { Link, useNavigate } from "react-router";
import type { Configuration, DecisionPage, Impact, ImpactGroup, ImpactReport } from "../answers.ts";
import { call, path, Refused } from "../api.ts";
import { formatDay, formatNumber, momentOf } from "../format.ts";
import { type ChangeRequest, groupKey, type GroupTarget as Target, type Progress, useImpact } from "../impact.ts";
import { useChange } from "../queries.ts";
import { usePricing } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Confirm } from "../design/dialog.tsx";
import { Field } from "../design/field.tsx";
import { GateOverride, GateResults, useMayOverride } from "./gate-verdict.tsx";
import { Counts, GroupTarget, nameOf, WhoLink } from "./group-target.tsx";
import { ReplayLater } from "./replay-later.tsx";
import { Failed, Loaded, Section, Skeleton } from "../design/page.tsx";
import { Table } from "../design/table.tsx";

const t = texts.change;
const SHOWN_AT_ONCE = 20;

/** A change of a service's pricings. */
export interface Changing {
  service: string;
  change: ChangeRequest;
}

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
  if (done !== undefined) return <Result {...props} report={done} />;
  return (
    <>
      <Working isBusy={query.isFetching} progress={progress} />
      {query.isFetching ? null : <Failed error={query.error} onRetry={restart} />}
      {impact === undefined ? (
        query.isFetching && <Skeleton lines={8} />
      ) : (
        <>
          <Summary change={change} impact={impact} />
          <Groups
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
        <Execute {...props} impact={asked} groups={groups} onClose={close} onDone={setDone} />
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

interface Choosing extends Changing {
  impact: Impact;
  chosen: Readonly<Record<string, Target>>;
  onChoose: (group: ImpactGroup, target: Configuration) => void;
}

/** Shows the groups in batches, largest first. Each shows its target, or its fate if there is none. */
function Groups(props: Choosing) {
  const { service, impact } = props;
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const successor = usePricing(service, impact.targetVersion ?? undefined);
  const groups = impact.groups.slice(0, shown);
  const hidden = impact.groups.length - groups.length;
  if (impact.groups.length === 0) return null;
  return (
    <>
      {impact.targetVersion === null ? (
        <GroupTable {...props} groups={groups} />
      ) : (
        <Loaded query={successor}>
          {(pricing) =>
            groups.map((group) => (
              <GroupTarget
                key={groupKey(group)}
                service={service}
                group={group}
                successor={pricing}
                value={props.chosen[groupKey(group)]?.target ?? group.proposal?.target}
                onChange={(target) => props.onChoose(group, target)}
                isVersionShown={props.change.action === "novation"}
              />
            ))
          }
        </Loaded>
      )}
      {hidden === 0 ? null : (
        <button type="button" className="b" onClick={() => setShown(shown + SHOWN_AT_ONCE)}>
          {t.more(formatNumber(Math.min(hidden, SHOWN_AT_ONCE)))}
        </button>
      )}
    </>
  );
}

function GroupTable({ service, change, groups }: Choosing & { groups: readonly ImpactGroup[] }) {
  const isActivation = change.action === "activate";
  return (
    <Table
      label={t.happens}
      head={[t.configuration, texts.contracts.version, t.contracts, isActivation ? t.fits : t.loses, ""]}
    >
      {groups.map((group) => (
        <tr key={groupKey(group)}>
          <th scope="row">{nameOf(group.configuration)}</th>
          <td>{group.pricingVersion}</td>
          <td className="right num">{formatNumber(group.counts.contracts)}</td>
          <td>
            {isActivation
              ? group.proposal === null
                ? "–"
                : nameOf(group.proposal.target)
              : group.features
                  .filter(({ loses }) => loses)
                  .map(({ feature }) => feature)
                  .join(", ") || "–"}
          </td>
          <td>
            <WhoLink service={service} group={group} />
          </td>
        </tr>
      ))}
    </Table>
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

/** Names the result: "Archive 1.1.0 and move 312 contracts". */
function confirmText({ service, change, impact }: Changing & { impact: Impact }): string {
  const count = formatNumber(impact.counts.contracts);
  if (change.action === "disable") return t.confirm.disable(service);
  if (change.action === "activate") return t.confirm.activate(change.pricingVersion);
  return t.confirm[change.action](change.pricingVersion, count);
}

/** Returns the name that the user types to confirm. */
const nameFor = ({ service, change }: Changing): string =>
  change.action === "disable" ? service : change.pricingVersion;

/** Confirms by name, asks for a reason if the gate is closed, and executes the change in one call. */
function Execute(
  props: Changing & {
    impact: Impact;
    groups: readonly Target[];
    onClose: (hasFailed: boolean) => void;
    onDone: (report: ImpactReport) => void;
  },
) {
  const { service, change, impact, groups } = props;
  const { base } = useHere();
  const mayOverride = useMayOverride();
  const [reason, setReason] = useState("");
  const [day, setDay] = useState("");
  const { organization } = useHere();
  const go = useNavigate();
  const at = momentOf(day);
  const place = base + path`/services/${service}`;
  const execute = useChange({
    change: () => {
      const query = { overrideReason: reason.trim(), ...(at === undefined ? {} : { at }) };
      return perform({ place, change, groups, query, impact });
    },
    touches: () => [`${base}/services`, `${base}/contracts`, `${base}/scheduled`],
    done: () => (at === undefined ? undefined : texts.upcoming.savedVersion(nameFor(props), formatDay(at))),
    gone: change.action === "disable" ? place : undefined,
    after: (report) =>
      at === undefined ? props.onDone(report) : void go(`/o/${organization.id}${path`/services/${service}`}`),
  });
  const refused = execute.error instanceof Refused ? execute.error.gate : undefined;
  const gate = refused ?? impact.gate;
  return (
    <Confirm
      title={texts.change.titles[change.action](service, nameFor(props))}
      action={confirmText(props)}
      name={nameFor(props)}
      missing={gate.passed ? undefined : !mayOverride ? t.ownerFirst : reason.trim() === "" ? t.reasonFirst : undefined}
      change={execute}
      onClose={() => props.onClose(execute.isError)}
    >
      {change.action === "activate" ? (
        <p>{t.leads.activate}</p>
      ) : (
        <p>{t.confirmLead(formatNumber(impact.counts.contracts))}</p>
      )}
      {gate.passed ? null : <GateOverride gate={gate} reason={reason} onReason={setReason} />}
      {change.action === "archive" || change.action === "activate" ? (
        <Field label={texts.upcoming.onDay} hint={texts.upcoming.onDayHint} type="date" value={day} onChange={setDay} />
      ) : null}
      {execute.isPending ? (
        <label>
          {t.doing} <progress />
        </label>
      ) : null}
    </Confirm>
  );
}

/** Executes the change and returns the server's impact report of that moment. */
async function perform(input: {
  place: string;
  change: ChangeRequest;
  groups: readonly Target[];
  query: { overrideReason: string; at?: string };
  impact: Impact;
}): Promise<ImpactReport> {
  const { place, change, groups, query } = input;
  if (change.action === "novation") {
    const { pricingVersion, from } = change;
    return call<Impact>("POST", `${place}/novations`, { query, body: { pricingVersion, from, groups } });
  }
  if (change.action === "disable") await call("DELETE", place, { query });
  else {
    const { action, pricingVersion } = change;
    const availability = action === "archive" ? "archived" : "active";
    const body = action === "archive" ? { groups } : undefined;
    const to = place + path`/pricings/${pricingVersion}`;
    await call("PUT", to, { query: { ...query, availability }, body });
    if (action === "archive" && query.at === undefined) {
      const { data } = await call<DecisionPage>("GET", `${place}/decisions`, {
        query: { pricingVersion, limit: 1 },
      });
      return data[0]?.report ?? input.impact;
    }
  }
  return input.impact;
}

/** Shows the outcome. */
function Result({ service, change, report }: Changing & { report: ImpactReport }) {
  const { organization } = useHere();
  const count = formatNumber(report.counts.contracts);
  const said =
    change.action === "disable" ? t.done.disable(service) : t.done[change.action](change.pricingVersion, count);
  const version = report.targetVersion;
  const search = new URLSearchParams({ service, ...(version === null ? {} : { version }) });
  const home = `/o/${organization.id}`;
  return (
    <Section title={t.result}>
      <p role="status">
        <strong>{said}</strong>
      </p>
      {report.counts.contracts === 0 || change.action === "activate" ? null : <Counts counts={report.counts} />}
      <div className="actions">
        <Link className="b" to={change.action === "disable" ? `${home}/services` : home + path`/services/${service}`}>
          {change.action === "disable" ? t.toServices : t.toService}
        </Link>
        {version === null ? null : (
          <Link className="b" to={`${home}/contracts?${search.toString()}`}>
            {t.toContracts}
          </Link>
        )}
      </div>
    </Section>
  );
}
