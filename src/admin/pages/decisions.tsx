import { useParams, useSearchParams } from "react-router";
import type { Decision, DecisionPage } from "../answers.ts";
import { path } from "../api.ts";
import { formatMoment, formatNumber } from "../format.ts";
import { GateResults } from "../parts/gate-verdict.tsx";
import { Counts, nameOf, TighterBudgets } from "../parts/group-target.tsx";
import { OlderPager } from "../design/pager.tsx";
import { Empty, Loaded, Note, Page, Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { useAsk } from "../queries.ts";
import { useHere } from "../here.tsx";
import { useServiceCrumbs } from "../parts/crumbs.ts";
import { texts } from "../texts.ts";

const t = texts.decisions;

export function DecisionsPage() {
  const { base } = useHere();
  const { service = "" } = useParams();
  const [search] = useSearchParams();
  const decisions = useAsk<DecisionPage>(base + path`/services/${service}/decisions`, {
    before: search.get("before") ?? undefined,
  });
  return (
    <Page title={t.title(service)} lead={t.lead} crumbs={useServiceCrumbs(service)}>
      <Loaded query={decisions} lines={10}>
        {({ data, next }) => (
          <>
            {data.length === 0 ? <Empty>{t.empty}</Empty> : null}
            {data.map((decision) => (
              <Made key={decision.id} service={service} decision={decision} />
            ))}
            <OlderPager next={next} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** Shows one executed change: its impact, the gate results, and the reason for an override. */
function Made({ service, decision }: { service: string; decision: Decision }) {
  const { action, pricingVersion, actor, rules, overrideReason, report } = decision;
  const version = pricingVersion ?? report.targetVersion ?? "";
  const who = `${texts.audit.kinds[actor.kind]} ${actor.name ?? actor.id ?? ""}`.trim();
  const passed = rules.every((rule) => rule.passed);
  return (
    <Section title={texts.change.titles[action](service, version)} lead={t.made(who, formatMoment(decision.at))}>
      {report.counts.contracts === 0 ? (
        <p>{texts.change.nobody[action]}</p>
      ) : (
        <>
          <p>
            {texts.change.affected(formatNumber(report.counts.contracts), formatNumber(report.groups.length))}{" "}
            {report.targetVersion === null ? null : texts.change.successor(report.targetVersion)}
          </p>
          <Counts counts={report.counts} />
          <details>
            <summary>{t.configurations(formatNumber(report.groups.length))}</summary>
            <Table
              label={t.configurations(formatNumber(report.groups.length))}
              head={[t.version, t.from, t.to, texts.change.contracts]}
            >
              {report.groups.map((group) => (
                <tr key={`${group.pricingVersion} ${nameOf(group.configuration)}`}>
                  <td>{group.pricingVersion}</td>
                  <th scope="row">{nameOf(group.configuration)}</th>
                  <td>
                    {group.target === null ? t.nowhere : nameOf(group.target)}
                    <TighterBudgets limits={group.limits} />
                  </td>
                  <td>{formatNumber(group.counts.contracts)}</td>
                </tr>
              ))}
            </Table>
          </details>
        </>
      )}
      {rules.length === 0 ? <p className="hint">{t.noRules}</p> : <GateResults gate={{ passed, rules }} />}
      {overrideReason === null ? null : (
        <Note tone="warn">
          <p>{t.overridden(who)}</p>
          <blockquote>{overrideReason}</blockquote>
        </Note>
      )}
    </Section>
  );
}
