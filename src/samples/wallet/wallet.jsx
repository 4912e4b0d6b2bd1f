import { useCallback, useEffect, useState } from "react";

/*
 * A wallet: what is left of each limit, and what it is made of. Copy it with style.css, and point it at your back end, which
 * answers the balances of who is signed in.
 */

const numbers = new Intl.NumberFormat("en");
const days = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeZone: "UTC" });
const ORIGINS = { given: "Given to you", rollover: "Carried over", billing: "Bought" };

/** Shows the balances that `address` answers. `onTopUp` opens your checkout, and returns a promise of its end. */
export function Wallet({ address, onTopUp }) {
  const [balances, setBalances] = useState();
  const [error, setError] = useState();
  const load = useCallback(async () => {
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(`The wallet could not be loaded (${answer.status}).`);
      setBalances(await answer.json());
      setError(undefined);
    } catch (failure) {
      setError(failure.message);
    }
  }, [address]);
  useEffect(() => void load(), [load]);
  return (
    <section className="wallet" aria-label="Wallet" aria-busy={balances === undefined && error === undefined}>
      {error !== undefined && <p role="alert">{error}</p>}
      {balances?.map((balance) => (
        <Balance
          key={`${balance.service}-${balance.limit}`}
          balance={balance}
          onTopUp={async () => {
            await onTopUp(balance);
            await load();
          }}
        />
      ))}
    </section>
  );
}

function Balance({ balance, onTopUp }) {
  const { limit, granted, blocks, limitNow, consumed, held, remaining, resetAt } = balance;
  if (typeof limitNow !== "number" || remaining === null) return null;
  const name = limit.replace(/([A-Z])/g, " $1").toLowerCase();
  return (
    <article className="balance">
      <h2>{name}</h2>
      <p className="left">
        <strong>{numbers.format(remaining)}</strong> of {numbers.format(limitNow)} left
      </p>
      <meter aria-label={`${name} left`} min={0} max={limitNow} low={limitNow / 5} value={remaining} />
      <ul className="parts">
        <li>
          {numbers.format(granted)} from your plan{resetAt !== null && `, new on ${days.format(new Date(resetAt))}`}
        </li>
        {blocks.map((block) => (
          <li key={block.id}>
            {ORIGINS[block.origin]}: {numbers.format(block.remaining)} left,{" "}
            {block.expiresAt === null ? "no end" : `until ${days.format(new Date(block.expiresAt))}`}
          </li>
        ))}
        <li>
          {numbers.format(consumed)} used{held > 0 && `, ${numbers.format(held)} reserved`}
        </li>
      </ul>
      <button type="button" onClick={onTopUp}>
        Top up
      </button>
    </article>
  );
}
