import { useState } from "react";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";
import { subscriptionOf } from "./bulk-novation.tsx";
import { Failed, Section } from "./page.tsx";
import { SubscriptionEditor } from "./subscription-editor.tsx";
import { SubscriptionPreview } from "./subscription-preview.tsx";

const t = texts.contract;

/** Picks a new subscription for one contract, and previews gains and losses. */
export function ChangePlan({ contract }: { contract: Contract }) {
  const { base } = useHere();
  const [target, setTarget] = useState(() => subscriptionOf(contract));
  const { userId } = contract.userContact;
  const novate = useChange({
    change: (_: undefined, key) => call("PUT", base + path`/contracts/${userId}`, { key, body: target }),
    touches: () => [`${base}/contracts`],
    done: () => t.novated,
  });
  const isSame = JSON.stringify(target) === JSON.stringify(subscriptionOf(contract));
  return (
    <Section title={t.change} lead={t.changeLead}>
      <SubscriptionEditor value={target} onChange={setTarget} />
      {isSame ? null : (
        <>
          <h3>{texts.novation.gains}</h3>
          <SubscriptionPreview before={contract} after={target} />
        </>
      )}
      <Failed error={novate.error} />
      <div className="actions">
        <button
          type="button"
          className="button primary"
          disabled={isSame || novate.isPending}
          onClick={() => novate.mutate(undefined)}
        >
          {t.novate}
        </button>
      </div>
    </Section>
  );
}
