import { useState } from "react";
import { scopesFor, useActing } from "../acting.ts";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";
import { Check, Field, Form } from "./field.tsx";
import { Failed, Section } from "./page.tsx";

const t = texts.contract;
const DAY_MS = 86_400_000;

/** Extends a contract and edits its automatic renewal. */
export function Billing({ contract }: { contract: Contract }) {
  const { base } = useHere();
  const { billingPeriod } = contract;
  const to = path`/contracts/${contract.userContact.userId}/billingPeriod`;
  const acting = useActing("PUT", to);
  const [autoRenew, setAutoRenew] = useState(billingPeriod.autoRenew);
  const [renewalDays, setRenewalDays] = useState(String(billingPeriod.renewalDays));
  const change = useChange({
    change: (body: object) => call("PUT", to, { key: acting?.key, query: acting?.query ?? {}, body }),
    touches: () => [`${base}/contracts`],
    done: () => t.renewed,
  });
  const extend = () => {
    const from = Math.max(Date.now(), Date.parse(billingPeriod.endDate));
    change.mutate({ endDate: new Date(from + Number(renewalDays) * DAY_MS).toISOString() });
  };
  if (acting === undefined) {
    return (
      <Section title={t.renew}>
        <p className="note warn">{t.needsKey(scopesFor("PUT", to))}</p>
      </Section>
    );
  }
  return (
    <Section title={t.renew}>
      <Form className="row" onSubmit={() => change.mutate({ autoRenew, renewalDays: Number(renewalDays) })}>
        <Field label={t.renewalDays} type="number" min={1} value={renewalDays} onChange={setRenewalDays} required />
        <Check label={t.autoRenew} checked={autoRenew} onChange={setAutoRenew} />
        <button type="submit" className="button" disabled={change.isPending}>
          {texts.common.save}
        </button>
        <button type="button" className="button" disabled={change.isPending} onClick={extend}>
          {t.renewNow(renewalDays)}
        </button>
      </Form>
      <Failed error={change.error} />
    </Section>
  );
}
