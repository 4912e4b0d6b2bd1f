import { CreditCard, TriangleAlert } from "lucide-react";
import { useState } from "react";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { Id } from "../design/copy.tsx";
import { Confirm } from "../design/dialog.tsx";
import { Note } from "../design/page.tsx";
import { formatLocalDay } from "../format.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";

const t = texts.billing;
type Billing = NonNullable<Contract["billing"]>;
const TONES = { active: "info", trialing: "info", past_due: "warn" } as const satisfies Partial<
  Record<Billing["status"], string>
>;

/** Names the subscription in words: "Stripe subscription sub_1". */
const subscriptionName = ({ provider, subscription }: Billing): string =>
  `${provider === "stripe" ? t.followsStripe : t.followsOther} ${subscription}`;

/** Says which subscription a contract follows, and lets admins detach it. Nothing for other contracts. */
export function Followed({ contract }: { contract: Contract }) {
  const { may } = useHere();
  const [asks, setAsks] = useState(false);
  const { billing, billingPeriod, asOf, userContact } = contract;
  if (billing === undefined) return null;
  const { endDate, autoRenew } = billingPeriod;
  const end = (autoRenew ? t.renews : t.runsOut)(formatLocalDay(endDate));
  const { status } = billing;
  const mayDetach = asOf === undefined && may("DELETE", path`/contracts/${userContact.userId}/billing`);
  return (
    <>
      <Note
        tone={status in TONES ? TONES[status as keyof typeof TONES] : "bad"}
        icon={CreditCard}
        action={
          mayDetach ? (
            <button type="button" className="b small" onClick={() => setAsks(true)}>
              {t.detach}
            </button>
          ) : undefined
        }
      >
        <span>{t.follows(subscriptionName(billing), t.statuses[status], end)}</span>{" "}
        <Id id={billing.subscription} text="" />
      </Note>
      {asks ? <Detach contract={contract} billing={billing} onClose={() => setAsks(false)} /> : null}
    </>
  );
}

/** Warns before a change by hand of a contract that follows a subscription. */
export function OverruledNote({ contract: { billing } }: { contract: Contract }) {
  if (billing === undefined) return null;
  return (
    <Note tone="warn" icon={TriangleAlert}>
      {t.overruled(subscriptionName(billing))}
    </Note>
  );
}

function Detach(props: { contract: Contract; billing: Billing; onClose: () => void }) {
  const { contract, billing, onClose } = props;
  const { base } = useHere();
  const name = nameOf(contract);
  const detach = useChange({
    change: () => call("DELETE", base + path`/contracts/${contract.userContact.userId}/billing`),
    touches: () => [`${base}/contracts`],
    done: () => t.detached(name),
    after: onClose,
  });
  return (
    <Confirm title={t.detachTitle(name)} action={t.detach} keep={t.keepFollowing} change={detach} onClose={onClose}>
      <p>{t.detachLead(subscriptionName(billing))}</p>
    </Confirm>
  );
}
