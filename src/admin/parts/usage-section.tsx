import { useEffect, useState } from "react";
import { scopesFor, useActing } from "../acting.ts";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { usageOf, type Usage } from "../pricing.ts";
import { useChange } from "../queries.ts";
import { usePricings } from "../pricings.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Dialog } from "../design/dialog.tsx";
import { Field, Form } from "../design/field.tsx";
import { Empty, Failed, Note, Section } from "../design/page.tsx";
import { formatDistance, formatName } from "../format.ts";
import { useSeats } from "../seats.ts";
import { UsageBar } from "./usage-bar.tsx";

const t = texts.contract;

/** Shows a contract's usage, editable for users with permission. */
export function UsageSection({ contract, updatedAt }: { contract: Contract; updatedAt: number }) {
  const { base, may } = useHere();
  const { pricingOf } = usePricings(Object.entries(contract.contractedServices));
  const [adjusted, setAdjusted] = useState<Usage>();
  const usage = usageOf(contract, pricingOf);
  const to = path`/contracts/${contract.userContact.userId}/usageLevels`;
  const acting = useActing("PUT", to);
  const isWriter = contract.asOf === undefined && may("PUT", path`/contracts/${contract.userContact.userId}`);
  const change = useChange({
    change: ({ body, query }: { body: object; query: Record<string, string | boolean> }, attempt) =>
      call("PUT", to, {
        key: acting?.key,
        query: { ...acting?.query, ...query },
        headers: { "idempotency-key": attempt },
        body,
      }),
    touches: () => [`${base}/contracts`],
    done: () => t.adjusted,
    after: () => setAdjusted(undefined),
  });
  const mayChange = isWriter && acting !== undefined;
  const seats = useSeats(contract);
  const isAdjustable = ({ service, limit }: Usage) =>
    !seats.some((counted) => counted.service === service && counted.limit === limit);
  return (
    <Section title={t.usage} actions={contract.asOf === undefined ? <Updated at={updatedAt} /> : null}>
      {usage.length === 0 ? <Empty>{t.noUsage}</Empty> : null}
      {usage.map((each) => (
        <div key={`${each.service}-${each.limit}`} className="usage-row">
          <UsageBar usage={each} />
          {mayChange && isAdjustable(each) ? (
            <button
              type="button"
              className="link small"
              aria-label={t.adjustTitle(formatName(each.limit))}
              onClick={() => setAdjusted(each)}
            >
              {t.adjust}
            </button>
          ) : null}
        </div>
      ))}
      {isWriter && acting === undefined ? <Note tone="warn">{t.needsKey(scopesFor("PUT", to))}</Note> : null}
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

/** Says how old the figures are, to the second. */
function Updated({ at }: { at: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <span className="small faint">{t.updated(formatDistance(new Date(at).toISOString(), Math.max(at, now)))}</span>
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
    <Dialog title={t.adjustTitle(formatName(props.usage.limit))} onClose={props.onClose}>
      <Form onSubmit={() => props.onAdd(Number(amount))}>
        <UsageBar usage={props.usage} />
        <Field label={t.amount} hint={t.adjustLead} type="number" value={amount} onChange={setAmount} required />
        <Failed error={props.error} />
        <div className="actions end">
          <button type="button" className="b danger" disabled={props.isBusy} onClick={props.onReset}>
            {t.reset}
          </button>
          <button type="submit" className="b primary" disabled={props.isBusy}>
            {t.add}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
