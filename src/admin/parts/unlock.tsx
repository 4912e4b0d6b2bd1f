import type { Change } from "../../core/offers/changes.ts";
import type { FoundPurchases, Purchase } from "../../core/offers/unlock.ts";
import { formatPrice, formatUnknown } from "../format.ts";
import { texts } from "../texts.ts";
import { configurationText } from "../unlock.ts";
import { Table } from "../design/table.tsx";

const t = texts.unlock;

/** Lists changed features and limits with their values before and after. */
export function ChangeList({ changes }: { changes: readonly Change[] }) {
  if (changes.length === 0) return <>–</>;
  return (
    <ul className="reasons">
      {changes.map(({ id, before, after }) => (
        <li key={id}>
          {id}: {formatUnknown(before)} → {formatUnknown(after)}
        </li>
      ))}
    </ul>
  );
}

/** Shows the smallest purchase that turns a feature on, and those of other plans. */
export function UnlockChoices({ purchases, complete }: FoundPurchases) {
  const [best] = purchases;
  if (best === undefined) return <p>{complete ? t.nothing : t.cutOff}</p>;
  return (
    <>
      <p>
        <strong>{t.sentence(configurationText(best.target), priceOf(best))}</strong>
      </p>
      <Table label={t.title} head={[t.configuration, t.price, t.gains, t.losses]}>
        {purchases.map((purchase) => (
          <tr key={configurationText(purchase.target)}>
            <th scope="row">{configurationText(purchase.target)}</th>
            <td>{priceOf(purchase)}</td>
            <td>
              <ChangeList changes={purchase.gains} />
            </td>
            <td>
              <ChangeList changes={[...purchase.losses, ...purchase.differences]} />
            </td>
          </tr>
        ))}
      </Table>
      {complete ? null : <p className="small soft">{t.cutOff}</p>}
    </>
  );
}

/** Offers the purchases that turn a feature on, each with its price before and after. */
export function UnlockWays(props: FoundPurchases & { onChoose: ((purchase: Purchase) => void) | undefined }) {
  const { purchases, complete, onChoose } = props;
  if (purchases.length === 0) return <p className="soft">{complete ? t.nothing : t.cutOff}</p>;
  return (
    <div className="ways">
      {purchases.map((purchase) => (
        <div key={configurationText(purchase.target)} className="way">
          <span className="grow">
            <b className="strong">{t.changeTo(configurationText(purchase.target))}</b>
            <span className="small soft">{priceOf(purchase)}</span>
          </span>
          {onChoose === undefined ? null : (
            <button type="button" className="b small" onClick={() => onChoose(purchase)}>
              {texts.contract.change}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}

function priceOf({ price: { now, then, currency } }: Purchase): string {
  if (then === null) return t.onRequest;
  return now === null ? formatPrice(then, currency) : `${formatPrice(now, currency)} → ${formatPrice(then, currency)}`;
}
