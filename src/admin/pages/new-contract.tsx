import { useState } from "react";
import { Link, useNavigate } from "react-router";
import type { Contract, Subscription } from "../answers.ts";
import { call, path, Refused } from "../api.ts";
import { Check, Field, Form, Segment } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Failed, Page, Section } from "../design/page.tsx";
import { useMissing } from "../parts/missing-choice.ts";
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
  const [trial, setTrial] = useState<TrialDraft>({ isOn: false, days: "14", after: "plan", then: NOTHING });
  const create = useChange({
    change: () => {
      const { userId, username, email } = contact;
      const body = {
        userContact: { userId, username: username || userId, ...(email === "" ? {} : { email }) },
        billingPeriod: { autoRenew, renewalDays: Number(renewalDays) },
        ...subscription,
        ...(groupId === "" ? {} : { groupId }),
        ...(trial.isOn ? { trial: trialOf(trial) } : {}),
      };
      return call<Contract>("POST", `${base}/contracts`, { body });
    },
    touches: () => [`${base}/contracts`],
    done: ({ userContact }) => t.created(userContact.userId),
    after: ({ userContact }) => void go(`../${path`contracts/${userContact.userId}`}`),
  });
  const { error } = create;
  // A trial ends on the versions that it begins with.
  const { contractedServices } = subscription;
  const afterwards = { ...trial.then, contractedServices };
  const isPlanAfterwards = trial.isOn && trial.after === "plan";
  const missingNow = useMissing(subscription);
  const missingThen = useMissing(isPlanAfterwards ? afterwards : subscription);
  const missing = missingNow ?? (missingThen === undefined ? undefined : texts.upcoming.missingThen(missingThen));
  const exists = error instanceof Refused && error.status === 409 && error.message.endsWith("already exists");
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
        <Section title={t.buys} lead={t.buysLead}>
          <SubscriptionEditor value={subscription} onChange={setSubscription} />
        </Section>
        <Section title={t.period}>
          <Check label={t.autoRenew} checked={autoRenew} onChange={setAutoRenew} />
          <Field label={t.renewalDays} type="number" min={1} value={renewalDays} onChange={setRenewalDays} required />
        </Section>
        <Section title={texts.upcoming.trial}>
          <TrialFields value={{ ...trial, then: afterwards }} onChange={setTrial} />
        </Section>
        <Failed error={create.error} action={exists ? <Existing userId={contact.userId} /> : undefined} />
        <div className="actions">
          <GuardedButton className="b primary" reason={missing} isBusy={create.isPending}>
            {t.create}
          </GuardedButton>
        </div>
      </Form>
    </Page>
  );
}

/** A trial as the form holds it. */
interface TrialDraft {
  isOn: boolean;
  days: string;
  after: "plan" | "end";
  /** The subscription afterwards. */
  then: Subscription;
}

function trialOf({ days, after, then }: TrialDraft): object {
  const { subscriptionPlans, subscriptionAddOns } = then;
  return { days: Number(days), then: after === "end" ? "end" : { subscriptionPlans, subscriptionAddOns } };
}

function TrialFields({ value, onChange }: { value: TrialDraft; onChange: (value: TrialDraft) => void }) {
  const later = texts.upcoming;
  return (
    <>
      <Check label={later.beginWith} checked={value.isOn} onChange={(isOn) => onChange({ ...value, isOn })} />
      {value.isOn ? (
        <>
          <Field
            label={later.days}
            type="number"
            min={1}
            max={365}
            value={value.days}
            onChange={(days) => onChange({ ...value, days })}
            required
          />
          <Segment
            label={later.after}
            value={value.after}
            onChange={(after) => onChange({ ...value, after })}
            options={[
              ["plan", later.afterPlan],
              ["end", later.afterEnd],
            ]}
          />
          {value.after === "plan" ? (
            <SubscriptionEditor value={value.then} onChange={(then) => onChange({ ...value, then })} isVersionFixed />
          ) : null}
        </>
      ) : null}
    </>
  );
}

const Existing = ({ userId }: { userId: string }) => (
  <Link className="b small" to={path`../contracts/${userId}`}>
    {t.openOf(userId)}
  </Link>
);
