import { useState } from "react";
import { scopesFor, useActing } from "../acting.ts";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { usageOf, type Usage } from "../pricing.ts";
import { useChange } from "../queries.ts";
import { usePricings } from "../services.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";
import { Dialog } from "./dialog.tsx";
import { Field, Form } from "./field.tsx";
import { Empty, Failed, Section } from "./page.tsx";
import { UsageBar } from "./usage-bar.tsx";

const t = texts.contract;

/** Shows a contract's usage, editable for users with permission. */
export function UsageSection({ contract }: { contract: Contract }) {
  const { base, may } = useHere();
  const { pricingOf } = usePricings(Object.entries(contract.contractedServices));
  const [adjusted, setAdjusted] = useState<Usage>();
  const usage = usageOf(contract, pricingOf);
  const to = path`/contracts/${contract.userContact.userId}/usageLevels`;
  const acting = useActing("PUT", to);
  const isWriter = contract.asOf === undefined && may("PUT", path`/contracts/${contract.userContact.userId}`);
  const change = useChange({
    change: ({ body, query }: { body: object; query: Record<string, string | boolean> }) =>
      call("PUT", to, { key: acting?.key, query: { ...acting?.query, ...query }, body }),
    touches: () => [`${base}/contracts`],
    done: () => t.adjusted,
    after: () => setAdjusted(undefined),
  });
  const mayChange = isWriter && acting !== undefined;
  return (
    <Section
      title={t.usage}
      actions={
        mayChange && usage.some(({ resetsAt }) => resetsAt !== undefined) ? (
          <button
            type="button"
            className="button small"
            disabled={change.isPending}
            onClick={() => change.mutate({ body: {}, query: { reset: true } })}
          >
            {t.resetAll}
          </button>
        ) : null
      }
    >
      {usage.length === 0 ? <Empty>{t.noUsage}</Empty> : null}
      {usage.map((each) => (
        <div key={`${each.service}-${each.limit}`} className="usage-row">
          <UsageBar usage={each} />
          {mayChange ? (
            <button type="button" className="button small" onClick={() => setAdjusted(each)}>
              {t.adjust}
            </button>
          ) : null}
        </div>
      ))}
      {isWriter && acting === undefined ? <p className="note warn">{t.needsKey(scopesFor("PUT", to))}</p> : null}
      {adjusted === undefined ? <Failed error={change.error} /> : null}
      {adjusted === undefined ? null : (
        <Adjust
          usage={adjusted}
          isBusy={change.isPending}
          error={change.error}
          onAdd={(amount) => change.mutate({ body: { [adjusted.service]: { [adjusted.limit]: amount } }, query: {} })}
          onReset={() => change.mutate({ body: {}, query: { usageLimit: adjusted.limit } })}
          onClose={() => setAdjusted(undefined)}
        />
      )}
    </Section>
  );
}

function Adjust(props: {
  usage: Usage;
  isBusy: boolean;
  error: Error | null;
  onAdd: (amount: number) => void;
  onReset: () => void;
  onClose: () => void;
}) {
  const [amount, setAmount] = useState("0");
  return (
    <Dialog title={t.adjustTitle(props.usage.limit)} onClose={props.onClose}>
      <Form onSubmit={() => props.onAdd(Number(amount))}>
        <UsageBar usage={props.usage} />
        <Field label={t.amount} hint={t.adjustLead} type="number" value={amount} onChange={setAmount} required />
        <Failed error={props.error} />
        <div className="actions end">
          <button type="button" className="button danger" disabled={props.isBusy} onClick={props.onReset}>
            {t.reset}
          </button>
          <button type="submit" className="button primary" disabled={props.isBusy}>
            {t.add}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
