import { useState } from "react";
import { Link, useNavigate } from "react-router";
import type { Contract, Subscription } from "../answers.ts";
import { call, path, Refused } from "../api.ts";
import { Check, Field, Form } from "../design/field.tsx";
import { Failed, Page, Section } from "../design/page.tsx";
import { NOTHING, SubscriptionEditor } from "../parts/subscription-editor.tsx";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.contract;

export function NewContractPage() {
  const { base } = useHere();
  const go = useNavigate();
  const [contact, setContact] = useState({ userId: "", username: "", email: "" });
  const [groupId, setGroupId] = useState("");
  const [autoRenew, setAutoRenew] = useState(true);
  const [renewalDays, setRenewalDays] = useState("30");
  const [subscription, setSubscription] = useState<Subscription>(NOTHING);
  const create = useChange({
    change: (_: undefined, key) => {
      const { userId, username, email } = contact;
      const body = {
        userContact: { userId, username: username || userId, ...(email === "" ? {} : { email }) },
        billingPeriod: { autoRenew, renewalDays: Number(renewalDays) },
        ...subscription,
        ...(groupId === "" ? {} : { groupId }),
      };
      return call<Contract>("POST", `${base}/contracts`, { key, body });
    },
    touches: () => [`${base}/contracts`],
    done: ({ userContact }) => t.created(userContact.userId),
    after: ({ userContact }) => void go(`../${path`contracts/${userContact.userId}`}`),
  });
  const exists = create.error instanceof Refused && create.error.status === 409;
  return (
    <Page title={t.newTitle} lead={t.newLead} crumbs={[[texts.contracts.title, "../contracts"]]}>
      <Form onSubmit={() => create.mutate(undefined)}>
        <Section title={t.contact}>
          <div className="fields">
            <Field
              label={t.userId}
              value={contact.userId}
              onChange={(userId) => setContact({ ...contact, userId })}
              required
            />
            <Field
              label={t.username}
              value={contact.username}
              onChange={(username) => setContact({ ...contact, username })}
            />
            <Field
              label={t.email}
              type="email"
              value={contact.email}
              onChange={(email) => setContact({ ...contact, email })}
            />
            <Field label={t.groupId} value={groupId} onChange={setGroupId} />
          </div>
        </Section>
        <Section title={texts.contracts.columns.plan}>
          <SubscriptionEditor value={subscription} onChange={setSubscription} />
        </Section>
        <Section title={t.period}>
          <Check label={t.autoRenew} checked={autoRenew} onChange={setAutoRenew} />
          <Field label={t.renewalDays} type="number" min={1} value={renewalDays} onChange={setRenewalDays} required />
        </Section>
        <Failed error={create.error} action={exists ? <Existing userId={contact.userId} /> : undefined} />
        <div className="actions">
          <button
            type="submit"
            className="b primary"
            disabled={create.isPending || Object.keys(subscription.contractedServices).length === 0}
          >
            {t.create}
          </button>
        </div>
      </Form>
    </Page>
  );
}

const Existing = ({ userId }: { userId: string }) => (
  <Link className="b small" to={path`../contracts/${userId}`}>
    {t.openOf(userId)}
  </Link>
);
