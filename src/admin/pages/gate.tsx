import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { GateMeasure, GateRule } from "../../core/change/impact/gate.ts";
import type { Gate } from "../answers.ts";
import { call } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Field, Form, Select } from "../design/field.tsx";
import { Empty, Failed, Loaded, Page, Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { useAsk, useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.gate;

export function GatePage() {
  const { base } = useHere();
  const gate = useAsk<Gate>(`${base}/gate`);
  return (
    <Page title={t.title} lead={t.lead}>
      <Loaded query={gate}>{({ rules }) => <Rules rules={rules} />}</Loaded>
    </Page>
  );
}

/** Lists the gate rules. Each edit is saved at once. */
function Rules({ rules }: { rules: readonly GateRule[] }) {
  const { base, may } = useHere();
  const mayChange = may("PUT", "/gate");
  const queries = useQueryClient();
  const [added, setAdded] = useState(0);
  const save = useChange({
    change: (next: readonly GateRule[]) => call<Gate>("PUT", `${base}/gate`, { body: { rules: next } }),
    // An impact report contains the gate's verdict, so it is stale too.
    touches: () => [`${base}/gate`, `${base}/services`],
    done: () => t.saved,
    undo: (_, next) => (next === rules ? undefined : rules),
    // The next edit starts from these rules, also while the list is loading again.
    after: (answer) => queries.setQueryData([`${base}/gate`, {}], answer),
  });
  return (
    <>
      <Section title={t.rules}>
        {rules.length === 0 ? (
          <Empty>{t.none}</Empty>
        ) : (
          <Table label={t.rules} head={[t.rule, t.narrowed, t.tolerated, ...(mayChange ? [""] : [])]}>
            {rules.map((rule, index) => (
              <tr key={`${index} ${JSON.stringify(rule)}`}>
                <th scope="row">{t.measures[rule.rule]}</th>
                <td>{aboutOf(rule)}</td>
                <td>{toleratedOf(rule)}</td>
                {mayChange ? (
                  <td>
                    <span className="actions end">
                      <button
                        type="button"
                        className="b small"
                        aria-label={t.removeRule(t.measures[rule.rule])}
                        disabled={save.isPending}
                        onClick={() => save.mutate(rules.filter((each) => each !== rule))}
                      >
                        {t.remove}
                      </button>
                    </span>
                  </td>
                ) : null}
              </tr>
            ))}
          </Table>
        )}
        <Failed error={save.error} />
      </Section>
      {mayChange ? (
        <NewRule
          key={added}
          isBusy={save.isPending}
          onAdd={(rule) => save.mutate([...rules, rule], { onSuccess: () => setAdded(added + 1) })}
        />
      ) : null}
    </>
  );
}

function aboutOf({ features, limits, byMoreThanPercent }: GateRule): string {
  if (byMoreThanPercent !== undefined) return t.byMoreThanOf(formatNumber(byMoreThanPercent));
  return (features ?? limits)?.join(", ") ?? t.all;
}

function toleratedOf({ atMost }: GateRule): string {
  const { percent, contracts } = atMost ?? {};
  const parts = [
    ...(percent === undefined ? [] : [t.percentOf(formatNumber(percent))]),
    ...(contracts === undefined ? [] : [t.atMostOf(formatNumber(contracts))]),
  ];
  return parts.join(", ") || t.strict;
}

function isMeasure(text: string): text is GateMeasure {
  return Object.hasOwn(t.measures, text);
}

const MEASURES = Object.entries(t.measures).flatMap(([name, label]) =>
  isMeasure(name) ? [[name, label] as const] : [],
);

const numberOf = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

function namesOf(text: string): string[] | undefined {
  const names = text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  return names.length === 0 ? undefined : names;
}

function NewRule({ isBusy, onAdd }: { isBusy: boolean; onAdd: (rule: GateRule) => void }) {
  const [rule, setRule] = useState<GateMeasure>("noFeatureLost");
  const [percent, setPercent] = useState("");
  const [contracts, setContracts] = useState("");
  const [names, setNames] = useState("");
  const [rise, setRise] = useState("");
  const add = () => {
    const atMost = { percent: numberOf(percent), contracts: numberOf(contracts) };
    const isTolerant = atMost.percent !== undefined || atMost.contracts !== undefined;
    onAdd({
      rule,
      ...(isTolerant ? { atMost } : {}),
      ...(rule === "noFeatureLost" ? { features: namesOf(names) } : {}),
      ...(rule === "noQuotaLost" ? { limits: namesOf(names) } : {}),
      ...(rule === "noPriceRise" ? { byMoreThanPercent: numberOf(rise) } : {}),
    });
  };
  const namesLabel = rule === "noFeatureLost" ? t.features : rule === "noQuotaLost" ? t.limits : undefined;
  return (
    <Section title={t.addTitle}>
      <Form label={t.addTitle} onSubmit={add}>
        <Select label={t.rule} value={rule} onChange={setRule} options={MEASURES} />
        <div className="fields">
          <Field
            label={t.percent}
            hint={t.optional}
            type="number"
            min={0}
            max={100}
            step="any"
            value={percent}
            onChange={setPercent}
          />
          <Field label={t.atMost} hint={t.optional} type="number" min={0} value={contracts} onChange={setContracts} />
          {namesLabel === undefined ? null : (
            <Field label={namesLabel} hint={t.namesHint} value={names} onChange={setNames} />
          )}
          {rule === "noPriceRise" ? (
            <Field
              label={t.byMoreThan}
              hint={t.optional}
              type="number"
              min={0}
              max={10_000}
              step="any"
              value={rise}
              onChange={setRise}
            />
          ) : null}
        </div>
        <div className="actions">
          <button type="submit" className="b primary" disabled={isBusy}>
            {t.add}
          </button>
        </div>
      </Form>
    </Section>
  );
}
