import { useId, useRef, useState } from "react";
import type { Contract, Subscription } from "../answers.ts";
import { call, path } from "../api.ts";
import { useRefresh } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Sheet } from "../design/dialog.tsx";
import { Note } from "../design/page.tsx";
import { useMissing } from "./missing-choice.ts";
import { SubscriptionEditor } from "./subscription-editor.tsx";
import { OutcomeView, useOutcome } from "./subscription-preview.tsx";
import { Tag, Table } from "../design/table.tsx";
import { useTell } from "../design/toast.tsx";

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
  const refresh = useRefresh();
  const tell = useTell();
  const [first] = contracts;
  const [initial] = useState<Subscription>(() => subscriptionOf(first));
  const [target, setTarget] = useState(initial);
  const id = useId();
  const missing = useMissing(target);
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
        await call("PUT", base + path`/contracts/${userContact.userId}`, { body: target });
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
    <Sheet
      title={t.title(contracts.length)}
      subject={t.lead}
      onClose={close}
      isChanged={!isRunning && outcomes.size === 0 && target !== initial}
      outcome={
        isRunning || outcomes.size > 0 ? undefined : (
          <>
            {contracts.slice(0, MANY).map((contract) => (
              <Preview key={contract.id} contract={contract} target={target} />
            ))}
          </>
        )
      }
      footer={
        <>
          <span id={id} className="grow small soft">
            {missing}
          </span>
          {isRunning ? (
            <button type="button" className="b" onClick={stop}>
              {t.stop}
            </button>
          ) : (
            <button type="button" className="b" onClick={close}>
              {outcomes.size === 0 ? texts.common.cancel : texts.common.close}
            </button>
          )}
          <button
            type="button"
            className="b primary"
            disabled={isRunning || missing !== undefined}
            aria-describedby={missing === undefined ? undefined : id}
            onClick={() => void run()}
          >
            {outcomes.size === 0 || isRunning ? t.confirm : t.goOn(left.length)}
          </button>
        </>
      }
    >
      {isRunning ? null : <SubscriptionEditor value={target} onChange={setTarget} />}
      {failed === 0 || isRunning ? null : (
        <Note tone="bad" role="alert">
          {t.failed(failed)}
        </Note>
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
    </Sheet>
  );
}

/** Shows what the change does to one of the contracts. */
function Preview({ contract, target }: { contract: Contract; target: Subscription }) {
  const outcome = useOutcome(contract, target);
  return (
    <section className="stack" aria-label={contract.userContact.userId}>
      <h3>{contract.userContact.userId}</h3>
      <OutcomeView outcome={outcome} name={contract.userContact.userId} />
    </section>
  );
}

function Told({ outcome }: { outcome: Outcome }) {
  if (outcome === undefined) return <span className="hint">{t.notTried}</span>;
  if (outcome === "novated") return <Tag tone="good">{t.novated}</Tag>;
  return (
    <>
      <Tag tone="bad">{t.notNovated}</Tag> {outcome.message}
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
