import { useState } from "react";
import { Link, useNavigate } from "react-router";
import type { DecisionPage, Impact, ImpactReport } from "../answers.ts";
import { call, path, Refused } from "../api.ts";
import { formatLocalDay, formatNumber, momentOf } from "../format.ts";
import type { ChangeRequest, GroupTarget as Target, Changing } from "../impact.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Confirm } from "../design/dialog.tsx";
import { Field } from "../design/field.tsx";
import { GateOverride, useMayOverride } from "./gate-verdict.tsx";
import { Counts } from "./group-target.tsx";
import { Section } from "../design/page.tsx";

const t = texts.change;

/** Names the result: "Archive 1.1.0 and move 312 contracts". */
export function confirmText({ service, change, impact }: Changing & { impact: Impact }): string {
  const count = formatNumber(impact.counts.contracts);
  if (change.action === "disable") return t.confirm.disable(service);
  if (change.action === "activate") return t.confirm.activate(change.pricingVersion);
  return t.confirm[change.action](change.pricingVersion, count);
}

/** Returns the name that the user types to confirm. */
const nameFor = ({ service, change }: Changing): string =>
  change.action === "disable" ? service : change.pricingVersion;

/** Confirms by name, asks for a reason if the gate is closed, and executes the change in one call. */
export function ExecuteChange(
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
    done: () => (at === undefined ? undefined : texts.upcoming.savedVersion(nameFor(props), formatLocalDay(at))),
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
export function ChangeResult({ service, change, report }: Changing & { report: ImpactReport }) {
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
