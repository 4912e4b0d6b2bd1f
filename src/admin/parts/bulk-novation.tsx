import { useRef, useState } from "react";
import type { Contract, Subscription } from "../answers.ts";
import { call, path } from "../api.ts";
import { useRefresh } from "../queries.ts";
import { useHere, useUser } from "../session.tsx";
import { texts } from "../texts.ts";
import { Dialog } from "./dialog.tsx";
import { SubscriptionEditor } from "./subscription-editor.tsx";
import { SubscriptionPreview } from "./subscription-preview.tsx";
import { Badge, Table } from "./table.tsx";
import { useTell } from "./toast.tsx";

const t = texts.novation;
const MANY = 3;

/** Outcome of one contract: novated or failed; undefined while not attempted. */
type Outcome = "novated" | Error | undefined;

/**
 * Novates several contracts to one subscription, one request at a time, and shows each outcome. The user can stop
 * between two requests; a restart skips contracts already novated.
 */
export function BulkNovation({ contracts, onClose }: { contracts: readonly Contract[]; onClose: () => void }) {
  const { base } = useHere();
  const { apiKey } = useUser();
  const refresh = useRefresh();
  const tell = useTell();
  const [first] = contracts;
  const [target, setTarget] = useState<Subscription>(() => subscriptionOf(first));
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map());
  const [isRunning, setIsRunning] = useState(false);
  const isStopped = useRef(false);
  const left = contracts.filter(({ id }) => outcomes.get(id) !== "novated");
  const run = async () => {
    isStopped.current = false;
    setIsRunning(true);
    const results = new Map<string, Outcome>();
    for (const [id, outcome] of outcomes) if (outcome === "novated") results.set(id, outcome);
    setOutcomes(new Map(results));
    for (const { id, userContact } of left) {
      if (isStopped.current) break;
      try {
        await call("PUT", base + path`/contracts/${userContact.userId}`, { key: apiKey, body: target });
        results.set(id, "novated");
      } catch (error) {
        results.set(id, error instanceof Error ? error : new Error(String(error)));
      }
      setOutcomes(new Map(results));
    }
    refresh([`${base}/contracts`]);
    setIsRunning(false);
    const novated = contracts.filter(({ id }) => results.get(id) === "novated").length;
    tell(t.finished(novated));
    if (novated === contracts.length) onClose();
  };
  const stop = () => {
    isStopped.current = true;
  };
  const close = () => {
    stop();
    onClose();
  };
  const failed = [...outcomes.values()].filter((outcome) => outcome instanceof Error).length;
  return (
    <Dialog title={t.title(contracts.length)} onClose={close}>
      <div className="dialog-body">
        <p>{t.lead}</p>
        {isRunning ? null : <SubscriptionEditor value={target} onChange={setTarget} />}
        {failed === 0 || isRunning ? null : (
          <p className="failed" role="alert">
            {t.failed(failed)}
          </p>
        )}
        {isRunning ? (
          <label>
            {t.progress(outcomes.size, contracts.length)} <progress value={outcomes.size} max={contracts.length} />
          </label>
        ) : null}
        <Table label={t.affected} head={[texts.contracts.columns.user, t.outcome]}>
          {contracts.map(({ id, userContact }) => (
            <tr key={id}>
              <th scope="row">{userContact.userId}</th>
              <td>
                <Told outcome={outcomes.get(id)} />
              </td>
            </tr>
          ))}
        </Table>
        {isRunning || outcomes.size > 0
          ? null
          : contracts.slice(0, MANY).map((contract) => (
              <section key={contract.id}>
                <h3>{contract.userContact.userId}</h3>
                <SubscriptionPreview before={contract} after={target} />
              </section>
            ))}
      </div>
      <div className="actions end">
        {isRunning ? (
          <button type="button" className="button" onClick={stop}>
            {t.stop}
          </button>
        ) : (
          <button type="button" className="button" onClick={close}>
            {outcomes.size === 0 ? texts.common.cancel : texts.common.close}
          </button>
        )}
        <button type="button" className="button primary" disabled={isRunning} onClick={() => void run()}>
          {outcomes.size === 0 || isRunning ? t.confirm : t.goOn(left.length)}
        </button>
      </div>
    </Dialog>
  );
}

function Told({ outcome }: { outcome: Outcome }) {
  if (outcome === undefined) return <span className="hint">{t.notTried}</span>;
  if (outcome === "novated") return <Badge tone="good">{t.novated}</Badge>;
  return (
    <>
      <Badge tone="danger">{t.notNovated}</Badge> {outcome.message}
    </>
  );
}

/** Returns only the subscription maps of a contract. */
export function subscriptionOf(contract: Subscription | undefined): Subscription {
  return {
    contractedServices: contract?.contractedServices ?? {},
    subscriptionPlans: contract?.subscriptionPlans ?? {},
    subscriptionAddOns: contract?.subscriptionAddOns ?? {},
  };
}
