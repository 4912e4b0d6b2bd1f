import { useState } from "react";
import type { Contract, Subscription } from "../answers.ts";
import { call, path } from "../api.ts";
import { useRefresh } from "../queries.ts";
import { useHere, useUser } from "../session.tsx";
import { texts } from "../texts.ts";
import { Dialog } from "./dialog.tsx";
import { SubscriptionEditor } from "./subscription-editor.tsx";
import { SubscriptionPreview } from "./subscription-preview.tsx";
import { useTell } from "./toast.tsx";

const t = texts.novation;
const MANY = 3;

/** Novates several contracts to the same subscription, one after the other, and reports those that could not be. */
export function BulkNovation({ contracts, onClose }: { contracts: readonly Contract[]; onClose: () => void }) {
  const { base } = useHere();
  const { apiKey } = useUser();
  const refresh = useRefresh();
  const tell = useTell();
  const [first] = contracts;
  const [target, setTarget] = useState<Subscription>(() => subscriptionOf(first));
  const [done, setDone] = useState<number>();
  const [failures, setFailures] = useState<readonly string[]>([]);
  const run = async () => {
    const failed: string[] = [];
    for (const [index, { userContact }] of contracts.entries()) {
      setDone(index);
      try {
        await call("PUT", base + path`/contracts/${userContact.userId}`, { key: apiKey, body: target });
      } catch (error) {
        failed.push(`${userContact.userId}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    refresh([`${base}/contracts`]);
    setDone(undefined);
    setFailures(failed);
    tell(t.finished(contracts.length - failed.length));
    if (failed.length === 0) onClose();
  };
  return (
    <Dialog title={t.title(contracts.length)} onClose={onClose}>
      <div className="dialog-body">
        <p>{t.lead}</p>
        <p>
          <strong>{t.affected}:</strong> {contracts.map(({ userContact }) => userContact.userId).join(", ")}
        </p>
        <SubscriptionEditor value={target} onChange={setTarget} />
        {contracts.slice(0, MANY).map((contract) => (
          <section key={contract.id}>
            <h3>{contract.userContact.userId}</h3>
            <SubscriptionPreview before={contract} after={target} />
          </section>
        ))}
        {failures.length === 0 ? null : (
          <div className="failed" role="alert">
            <p>{t.failed(failures.length)}</p>
            <ul>
              {failures.map((failure) => (
                <li key={failure}>{failure}</li>
              ))}
            </ul>
          </div>
        )}
        {done === undefined ? null : (
          <label>
            {t.progress(done, contracts.length)} <progress value={done} max={contracts.length} />
          </label>
        )}
      </div>
      <div className="actions end">
        <button type="button" className="button" onClick={onClose}>
          {texts.common.cancel}
        </button>
        <button type="button" className="button primary" disabled={done !== undefined} onClick={() => void run()}>
          {t.confirm}
        </button>
      </div>
    </Dialog>
  );
}

/** What a contract has now, without what else it is. */
export function subscriptionOf(contract: Subscription | undefined): Subscription {
  return {
    contractedServices: contract?.contractedServices ?? {},
    subscriptionPlans: contract?.subscriptionPlans ?? {},
    subscriptionAddOns: contract?.subscriptionAddOns ?? {},
  };
}
