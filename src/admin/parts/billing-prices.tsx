import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import type { BillingConnection, MappedPrice } from "../answers.ts";
import {
  bodyOf,
  type MapRow,
  mapRows,
  type NewestPricing,
  type Target,
  useConnection,
  useNewestPricings,
} from "../billing.ts";
import { trackedLimits } from "../../core/pricing/compile.ts";
import { Id } from "../design/copy.tsx";
import { Dialog } from "../design/dialog.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Empty, Failed, Note, Section } from "../design/page.tsx";
import { Status, Table } from "../design/table.tsx";
import { formatName, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { serviceKey } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.billing;

/** Shows which price id stands for which plan, add-on or credits, what is missing in red, and edits it. */
export function PriceMap({ connection }: { connection: BillingConnection }) {
  const { may } = useHere();
  const [edited, setEdited] = useState<Target | "new">();
  const pricings = useNewestPricings();
  const rows = mapRows(connection);
  const missing = rows.filter(({ problem }) => problem !== undefined).length;
  const mayMap = may("PUT", `/billing/${connection.provider}`);
  return (
    <Section
      title={t.prices}
      lead={t.pricesLead}
      actions={
        mayMap ? (
          <button type="button" className="b" onClick={() => setEdited("new")}>
            <Plus />
            {t.map}
          </button>
        ) : null
      }
    >
      {missing === 0 ? null : <Note tone="bad">{t.missing(formatNumber(missing))}</Note>}
      {rows.length === 0 ? (
        <Empty>{t.noPrices}</Empty>
      ) : (
        <Table label={t.prices} head={[t.target, t.service, t.price, ...(mayMap ? [""] : [])]}>
          {rows.map((row) => (
            <Row
              key={`${row.service} ${row.kind} ${row.name} ${row.price}`}
              row={row}
              connection={connection}
              version={versionOf(pricings, row.service)}
              onMap={mayMap ? () => setEdited(row) : undefined}
            />
          ))}
        </Table>
      )}
      {edited === undefined ? null : (
        <MapPrice
          connection={connection}
          pricings={pricings}
          preset={edited === "new" ? undefined : edited}
          onClose={() => setEdited(undefined)}
        />
      )}
    </Section>
  );
}

const versionOf = (pricings: readonly NewestPricing[], service: string): string | undefined =>
  pricings.find((each) => serviceKey(each.service) === serviceKey(service))?.pricing.pricing.version;

/** Plans are shown as written; other names are keys of programs. */
const titleOf = ({ kind, name }: Target): string => (kind === "plan" ? name : formatName(name));

function detailOf(mapped: MappedPrice | undefined): string {
  if (mapped === undefined || "plan" in mapped) return "";
  if ("addOn" in mapped) return (mapped.quantity ?? 1) === 1 ? "" : t.perUnit(formatNumber(mapped.quantity ?? 1));
  const { amount, expiresInDays } = mapped;
  return expiresInDays === undefined
    ? t.credit(formatNumber(amount))
    : t.creditDays(formatNumber(amount), formatNumber(expiresInDays));
}

function Row(props: {
  row: MapRow;
  connection: BillingConnection;
  version: string | undefined;
  onMap: (() => void) | undefined;
}) {
  const { row, connection, version, onMap } = props;
  const { price, problem, mapped } = row;
  const change = useConnection(connection.provider, { done: () => t.unmapped(price ?? ""), before: connection });
  const unmap = () => {
    const { [price ?? ""]: _, ...prices } = connection.prices;
    change.mutate({ ...bodyOf(connection), prices });
  };
  return (
    <tr>
      <th scope="row" title={row.name}>
        {titleOf(row)}
        <p className="hint">{[t.kinds[row.kind], detailOf(mapped)].filter((text) => text !== "").join(", ")}</p>
      </th>
      <td>{row.service}</td>
      <td>
        {price === null ? null : <Id id={price} />}
        {problem === undefined ? null : (
          <p>
            <Status tone="bad">
              {problem === "unpriced" ? t.noPriceId : version === undefined ? t.noVersion : t.notInVersion(version)}
            </Status>
          </p>
        )}
        <Failed error={change.error} />
      </td>
      {onMap === undefined ? null : (
        <td>
          <span className="actions end">
            {price === null ? (
              problem === "unpriced" ? (
                <button type="button" className="b small" aria-label={t.mapThis(titleOf(row))} onClick={onMap}>
                  {t.map}
                </button>
              ) : null
            ) : (
              <MoreMenu label={t.more(price)} isSmall>
                <MenuItem icon={Trash2} isBad onSelect={unmap}>
                  {t.unmap}
                </MenuItem>
              </MoreMenu>
            )}
          </span>
        </td>
      )}
    </tr>
  );
}

const keyOf = ({ service, kind, name }: Target): string => `${serviceKey(service)} ${kind} ${name}`;

/** Lists everything that a price id can stand for. */
const targetsOf = (pricings: readonly NewestPricing[]): Target[] =>
  pricings.flatMap(({ service, pricing }) => [
    ...pricing.pricing.plans.map(({ name }): Target => ({ service, kind: "plan", name })),
    ...pricing.pricing.addOns.map(({ name }): Target => ({ service, kind: "addOn", name })),
    ...trackedLimits(pricing)
      .filter(({ name }) => typeof pricing.usageLimits.get(name)?.defaultValue === "number")
      .map(({ name }): Target => ({ service, kind: "limit", name })),
  ]);

function MapPrice(props: {
  connection: BillingConnection;
  pricings: readonly NewestPricing[];
  preset: Target | undefined;
  onClose: () => void;
}) {
  const { connection, pricings, preset, onClose } = props;
  const [price, setPrice] = useState("");
  const [chosen, setChosen] = useState(preset === undefined ? "" : keyOf(preset));
  const [quantity, setQuantity] = useState("1");
  const [amount, setAmount] = useState("");
  const [days, setDays] = useState("");
  const targets = targetsOf(pricings);
  const target = targets.find((each) => keyOf(each) === chosen) ?? targets[0];
  const change = useConnection(connection.provider, {
    done: () => t.mapped(price),
    before: connection,
    after: onClose,
  });
  if (target === undefined) return null;
  const { service, kind, name } = target;
  const mapped: MappedPrice =
    kind === "plan"
      ? { service, plan: name }
      : kind === "addOn"
        ? { service, addOn: name, ...(quantity === "1" ? {} : { quantity: Number(quantity) }) }
        : { service, limit: name, amount: Number(amount), ...(days === "" ? {} : { expiresInDays: Number(days) }) };
  return (
    <Dialog title={t.mapTitle} onClose={onClose}>
      <Form
        onSubmit={() =>
          change.mutate({ ...bodyOf(connection), prices: { ...connection.prices, [price.trim()]: mapped } })
        }
      >
        <Select
          label={t.target}
          value={keyOf(target)}
          onChange={setChosen}
          options={targets.map((each) => [
            keyOf(each),
            `${each.service}: ${titleOf(each)} (${t.kinds[each.kind].toLowerCase()})`,
          ])}
        />
        <Field label={t.price} hint={t.priceHint} value={price} onChange={setPrice} required />
        {kind === "addOn" ? (
          <Field label={t.quantity} type="number" min={1} value={quantity} onChange={setQuantity} required />
        ) : null}
        {kind === "limit" ? (
          <div className="fields">
            <Field label={t.amount} type="number" step="any" min={0} value={amount} onChange={setAmount} required />
            <Field label={t.days} hint={t.daysHint} type="number" min={1} value={days} onChange={setDays} />
          </div>
        ) : null}
        <Failed error={change.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={change.isPending}>
            {t.map}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
