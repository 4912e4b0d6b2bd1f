import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { deniedInReality, deniedShare, revenueChange } from "../../core/change/replay/report.ts";
import type { ReplayGroup, ReplayReport } from "../answers.ts";
import { callForLines, path, Refused } from "../api.ts";
import { Check } from "../design/field.tsx";
import { Failed, Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { formatLocalDay, formatList, formatNumber, formatPrice, formatShare, formatShareChange } from "../format.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Trend } from "./bars.tsx";
import { nameOf } from "./group-target.tsx";

const t = texts.replay;
/** Most affected customers on the first screen. */
const SHOWN_FIRST = 5;
const REASONS = ["LIMIT_REACHED", "NOT_GRANTED", "BUDGET_REACHED", "gone"] as const;

/** The pricing that last month is tried on: a version of the service, or the text of a draft. */
export type Tried = { pricingVersion: string } | { draft: string };

interface Progress {
  contracts: number;
  of: number;
}
type Line = { progress: Progress } | { report: ReplayReport } | { error: string };

function useReplay(service: string, tried: Tried) {
  const { base } = useHere();
  const [progress, setProgress] = useState<Progress>();
  const left = useRef(new AbortController());
  // Leaving the page ends the work on the server.
  useEffect(() => {
    const leaving = new AbortController();
    left.current = leaving;
    return () => leaving.abort();
  }, []);
  const run = useMutation({
    mutationFn: async (keepPlans: boolean) => {
      setProgress(undefined);
      let report: ReplayReport | undefined;
      let body: object = { ...tried, keepPlans };
      if ("draft" in tried) {
        const form = new FormData();
        form.append("replay", JSON.stringify({ keepPlans }));
        form.append("pricing", new Blob([tried.draft], { type: "application/yaml" }), "pricing.yml");
        body = form;
      }
      const to = base + path`/services/${service}/replay`;
      await callForLines<Line>("POST", to, { body, signal: left.current.signal }, (line) => {
        if ("error" in line) throw new Refused(500, line.error);
        if ("progress" in line) setProgress(line.progress);
        else report = line.report;
      });
      if (report === undefined) throw new Refused(0, texts.errors.unreachable);
      return report;
    },
  });
  return { run, progress };
}

/** Tries a pricing on what customers used last month. Changes nothing. */
export function Replay({ service, tried }: { service: string; tried: Tried }) {
  const [keepPlans, setKeepPlans] = useState(true);
  const { run, progress } = useReplay(service, tried);
  const { contracts = 0, of = 0 } = progress ?? {};
  return (
    <Section title={t.title}>
      <p>{t.lead}</p>
      <Check label={t.keepPlans} checked={keepPlans} onChange={setKeepPlans} />
      <div className="actions">
        <button type="button" className="b" disabled={run.isPending} onClick={() => run.mutate(keepPlans)}>
          {t.start}
        </button>
      </div>
      <div className="progress-line" role="status">
        {run.isPending ? (
          <label>
            {of === 0 ? t.working : t.progress(formatNumber(contracts), formatNumber(of))}{" "}
            <progress {...(of === 0 ? {} : { value: contracts, max: of })} />
          </label>
        ) : null}
      </div>
      <Failed error={run.error} />
      {run.data === undefined ? null : <Result service={service} report={run.data} />}
    </Section>
  );
}

function Result({ service, report }: { service: string; report: ReplayReport }) {
  const { contracts, totals, days, groups, top, unknown, complete } = report;
  const { denied, revenue, paying } = totals;
  const money = (amount: number) => formatPrice(amount, revenue.currency);
  const change = revenueChange(report);
  return (
    <div className="stack wide">
      <p className="figure">
        {t.stopped(formatNumber(denied.contracts), formatNumber(contracts), formatShare(deniedShare(report)))}
      </p>
      <p>
        <b>
          {t.revenue(money(revenue.then), money(revenue.replayed))}
          {change === undefined ? null : ` (${formatShareChange(change)})`}
        </b>{" "}
        {t.paying(formatNumber(paying.more), formatNumber(paying.less), formatNumber(paying.same))}
        {revenue.unpriced === 0 ? null : ` ${t.unpriced(formatNumber(revenue.unpriced))}`}
      </p>
      <Why totals={totals} />
      {denied.movements === 0 ? null : <h3>{t.perDay}</h3>}
      {denied.movements === 0 ? null : (
        <Trend
          name={t.denials}
          days={days.map(({ day }) => day)}
          data={days.map((day) => day.denied)}
          columns={[
            { name: t.denials, data: days.map((day) => day.denied) },
            { name: t.contracts, data: days.map((day) => day.contracts) },
          ]}
          isOver
        />
      )}
      <h3>{t.groups}</h3>
      <Table label={t.groups} head={[t.from, t.to, t.contracts, t.stoppedShort, t.first, t.revenueShort]}>
        {groups.map((group) => (
          <Group key={JSON.stringify([group.pricingVersion, group.configuration])} group={group} money={money} />
        ))}
      </Table>
      {top.length === 0 ? null : <Top report={report} money={money} />}
      {unknown.length === 0 ? null : <p>{t.unknown(unknown.join(", "))}</p>}
      <p className="small faint">
        {t.basis} {complete ? "" : t.incomplete} <ServiceContracts service={service} />
      </p>
    </div>
  );
}

/** Says why calls would have been denied, and how many were denied in reality. */
function Why({ totals }: Pick<ReplayReport, "totals">) {
  const { denied } = totals;
  const reasons = REASONS.filter((reason) => denied.reasons[reason] > 0);
  const amounts = Object.entries(denied.amounts).map(([limit, amount]) => `${formatNumber(amount)} ${limit}`);
  const then = deniedInReality({ totals });
  if (reasons.length === 0 && then === 0) return null;
  return (
    <p>
      {reasons.length === 0
        ? null
        : t.why(
            formatNumber(denied.movements),
            formatList(reasons.map((reason) => t.reasons[reason](formatNumber(denied.reasons[reason])))),
          )}
      {amounts.length === 0 ? null : ` ${t.amounts(formatList(amounts))}`}
      {then === 0 ? null : ` ${t.deniedThen(formatNumber(then))}`}
    </p>
  );
}

function Group({ group, money }: { group: ReplayGroup; money: (amount: number) => string }) {
  const { configuration, target, problem, price, firstDenialAfterDays: first } = group;
  const shown = (amount: number | null) => (amount === null ? texts.common.none : money(amount));
  return (
    <tr>
      <th scope="row">
        {nameOf(configuration)} <span className="small faint">{group.pricingVersion}</span>
      </th>
      <td>{problem?.message ?? (target === null ? texts.common.none : nameOf(target))}</td>
      <td className="right num">{formatNumber(group.contracts)}</td>
      <td className="right num">{formatNumber(group.denied.contracts)}</td>
      <td className="right num">{first === null ? texts.common.none : t.days(formatNumber(first.p50))}</td>
      <td className="right num">{`${shown(price.then)} → ${shown(price.replayed)}`}</td>
    </tr>
  );
}

function Top({ report: { top }, money }: { report: ReplayReport; money: (amount: number) => string }) {
  const { organization } = useHere();
  const [isAll, setAll] = useState(false);
  return (
    <>
      <h3>{t.top}</h3>
      <Table label={t.top} head={[t.user, t.denials, t.first, t.revenueShort]}>
        {top.slice(0, isAll ? top.length : SHOWN_FIRST).map(({ userId, denied, firstDenialAt, price }) => (
          <tr key={userId}>
            <th scope="row">
              <Link className="link" to={`/o/${organization.id}${path`/contracts/${userId}`}`}>
                {userId}
              </Link>
            </th>
            <td className="right num">{formatNumber(denied)}</td>
            <td className="right">{formatLocalDay(firstDenialAt)}</td>
            <td className="right num">
              {price.then === null || price.replayed === null
                ? texts.common.none
                : `${money(price.then)} → ${money(price.replayed)}`}
            </td>
          </tr>
        ))}
      </Table>
      {isAll || top.length <= SHOWN_FIRST ? null : (
        <div className="actions">
          <button type="button" className="b" onClick={() => setAll(true)}>
            {t.allOfTop(formatNumber(top.length))}
          </button>
        </div>
      )}
    </>
  );
}

function ServiceContracts({ service }: { service: string }) {
  const { organization } = useHere();
  const search = new URLSearchParams({ service });
  return (
    <Link className="link" to={`/o/${organization.id}/contracts?${search.toString()}`}>
      {t.allContracts}
    </Link>
  );
}
