import { useState } from "react";
import { type Acting, scopesFor, useActing } from "../acting.ts";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { Check, Field, Form } from "../design/field.tsx";
import { Failed, Note, Section } from "../design/page.tsx";
import { formatLocalDay, formatPeriod } from "../format.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { OverruledNote } from "./followed.tsx";

const t = texts.contract;
const DAY_MS = 86_400_000;

/** Changes a contract's billing period. `acting` is undefined when this user sees no key that may do it. */
export function useBilling({ userContact, billingPeriod }: Contract): {
  acting: Acting | undefined;
  to: string;
  isPending: boolean;
  error: Error | null;
  /** End of the period after an extension by its length. */
  extended: string;
  extend: () => void;
  save: (renewal: { autoRenew: boolean; renewalDays?: number }) => void;
} {
  const { base } = useHere();
  const to = path`/contracts/${userContact.userId}/billingPeriod`;
  const acting = useActing("PUT", to);
  const change = useChange({
    change: (body: object) => call("PUT", to, { key: acting?.key, query: acting?.query ?? {}, body }),
    touches: () => [`${base}/contracts`],
    done: () => t.renewed,
  });
  const from = Math.max(Date.now(), Date.parse(billingPeriod.endDate));
  const extended = new Date(from + billingPeriod.renewalDays * DAY_MS).toISOString();
  return {
    acting,
    to,
    isPending: change.isPending,
    error: change.error,
    extended,
    extend: () => change.mutate({ endDate: extended }),
    save: (renewal) => change.mutate(renewal),
  };
}

/** Extends a contract and edits its automatic renewal. */
export function Billing({ contract }: { contract: Contract }) {
  const { billingPeriod } = contract;
  const { renewalPeriod } = billingPeriod;
  const { acting, to, isPending, error, extended, extend, save } = useBilling(contract);
  const [autoRenew, setAutoRenew] = useState(billingPeriod.autoRenew);
  const [renewalDays, setRenewalDays] = useState(String(billingPeriod.renewalDays));
  if (acting === undefined) {
    return (
      <Section title={t.renew}>
        <Note tone="warn">{t.needsKey(scopesFor("PUT", to))}</Note>
      </Section>
    );
  }
  return (
    <Section title={t.renew}>
      <OverruledNote contract={contract} />
      <Form
        onSubmit={() =>
          save({ autoRenew, ...(renewalPeriod === undefined ? { renewalDays: Number(renewalDays) } : {}) })
        }
      >
        {renewalPeriod === undefined ? (
          <Field label={t.renewalDays} type="number" min={1} value={renewalDays} onChange={setRenewalDays} required />
        ) : (
          <p>{texts.billing.renewsEvery(formatPeriod(renewalPeriod))}</p>
        )}
        <Check label={t.autoRenew} checked={autoRenew} onChange={setAutoRenew} />
        <div className="actions">
          <button type="submit" className="b" disabled={isPending}>
            {texts.common.save}
          </button>
          <button type="button" className="b" disabled={isPending} onClick={extend}>
            {t.extendTo(formatLocalDay(extended))}
          </button>
        </div>
      </Form>
      <Failed error={error} />
    </Section>
  );
}
