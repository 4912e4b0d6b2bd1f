import type { JSX, ReactNode } from "react";
import type { Configuration, Offer, OfferedAddOn, OfferedPlan, Shown } from "../client/offer.ts";

/**
 * Texts of the default markup; each replaces an English one. `plans` and `addOns` caption the tables; `features` and
 * `limits` head the features without a tag and the limits. Functions get the name of the service, plan or add-on.
 */
export type OfferLabels = Partial<
  Record<"features" | "limits" | "current" | "loading" | "error", string> &
    Record<
      "plans" | "addOns" | "choose" | "upgrade" | "downgrade" | "switch" | "contact" | "add" | "addMore",
      (name: string) => string
    >
>;

/** Actions of the buttons. `item` is the plan or add-on of the offer. */
export interface ChoiceProps<Item = OfferedPlan | OfferedAddOn> {
  onSelect?: ((configuration: Configuration, item: Item) => void) | undefined;
  /** Renders links instead of buttons. */
  hrefOf?: ((configuration: Configuration, item: Item) => string) | undefined;
}

/** Props of OfferTable. */
export interface OfferTableProps extends ChoiceProps {
  offer: Offer;
  labels?: OfferLabels | undefined;
}

/** @internal A button or link that chooses a configuration. */
export function Choice<Item>({
  to,
  item,
  by: { onSelect, hrefOf },
  children,
}: {
  to: Configuration;
  item: Item;
  by: ChoiceProps<Item>;
  children: ReactNode;
}): JSX.Element {
  const onClick = onSelect && (() => onSelect(to, item));
  return hrefOf ? (
    <a href={hrefOf(to, item)} onClick={onClick}>
      {children}
    </a>
  ) : (
    <button type="button" onClick={onClick}>
      {children}
    </button>
  );
}

const ENGLISH: Required<Omit<OfferLabels, "loading" | "error">> = {
  features: "Features",
  limits: "Limits",
  current: "Current plan",
  plans: (name) => `Plans of ${name}`,
  addOns: (name) => `Add-ons of ${name}`,
  choose: (name) => `Choose ${name}`,
  upgrade: (name) => `Upgrade to ${name}`,
  downgrade: (name) => `Downgrade to ${name}`,
  switch: (name) => `Switch to ${name}`,
  contact: (name) => `Contact us about ${name}`,
  add: (name) => `Add ${name}`,
  addMore: (name) => `Add more ${name}`,
};

type Row = Offer["features"][number] | Offer["limits"][number];

/**
 * Shows an offer as tables without class names: plans with their features and limits, then add-ons. Works in server
 * components. Source: contract offers §7.
 */
export function OfferTable(props: OfferTableProps): JSX.Element {
  const { offer, labels, ...by } = props;
  const { service, plans, addOns, features, limits, tags, current } = offer;
  const words = { ...ENGLISH, ...labels };
  const canChoose = by.onSelect ?? by.hrefOf;
  const rowsOf = <Each,>(rows: readonly Each[], kind: "features" | "limits") =>
    rows.map((row, index) => ({ row, cells: plans.map((plan) => plan[kind][index]) }));
  const all = rowsOf(features, "features");
  const groups = [
    ...tags.map((tag) => ({ heading: tag, rows: all.filter(({ row }) => row.tag === tag) })),
    { heading: words.features, rows: all.filter(({ row }) => !tags.some((tag) => tag === row.tag)) },
    { heading: words.limits, rows: rowsOf(limits, "limits") },
  ].filter(({ rows }) => rows[0]);
  const brought = (rows: readonly Row[], values: Readonly<Record<string, Shown>>) =>
    rows.flatMap(({ name, label }) => (values[name] ? [`${label}: ${values[name].text}`] : []));
  return (
    <>
      {plans[0] && (
        <table data-faregate="offer">
          <caption>{words.plans(service)}</caption>
          <thead>
            <tr>
              <td />
              {plans.map(({ name, scenario, price, description }) => (
                <th key={name} scope="col" data-plan={name} data-scenario={scenario}>
                  {name} <span>{price.text}</span>
                  {description && <p>{description}</p>}
                </th>
              ))}
            </tr>
          </thead>
          {groups.map(({ heading, rows }) => (
            <tbody key={heading}>
              {groups[1] && (
                <tr>
                  <th scope="rowgroup" colSpan={plans.length + 1}>
                    {heading}
                  </th>
                </tr>
              )}
              {rows.map(({ row, cells }) => (
                <tr key={row.id}>
                  <th scope="row">{row.label}</th>
                  {cells.map((shown, index) => (
                    <td key={index} data-included={!/^(false)?$/.test(String(shown?.value))}>
                      {shown?.text}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          ))}
          {canChoose && (
            <tfoot>
              <tr>
                <td />
                {plans.map((plan) => (
                  <td key={plan.name}>
                    {plan.scenario === "current" && !current?.expired ? (
                      <button type="button" disabled aria-current="true">
                        {words.current}
                      </button>
                    ) : (
                      <Choice to={plan.select} item={plan} by={by}>
                        {words[plan.scenario && plan.scenario !== "current" ? plan.scenario : "choose"](plan.name)}
                      </Choice>
                    )}
                  </td>
                ))}
              </tr>
            </tfoot>
          )}
        </table>
      )}
      {addOns[0] && (
        <table data-faregate="add-ons">
          <caption>{words.addOns(service)}</caption>
          <tbody>
            {addOns.map((addOn) => (
              <tr key={addOn.name} data-add-on={addOn.name}>
                <th scope="row">
                  {addOn.name}
                  {addOn.description && <p>{addOn.description}</p>}
                </th>
                <td>{addOn.price.text}</td>
                <td>
                  {[
                    ...brought(features, addOn.features),
                    ...brought(limits, addOn.limits),
                    ...brought(limits, addOn.extensions),
                  ].join(", ")}
                </td>
                {canChoose && (
                  <td>
                    {addOn.select && (
                      <Choice to={addOn.select} item={addOn} by={by}>
                        {words[addOn.held ? "addMore" : "add"](addOn.name)}
                      </Choice>
                    )}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
