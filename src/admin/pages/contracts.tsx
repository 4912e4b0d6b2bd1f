import { ArrowDown, ArrowUp, ChevronsUpDown, Download, UserPlus } from "lucide-react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import type { Contract } from "../answers.ts";
import { path } from "../api.ts";
import {
  choiceFrom,
  type ContractChoice,
  PAGE_SIZE,
  queryOf,
  readAll,
  type SortField,
  STATE_TONES,
  stateOf,
} from "../contract-list.ts";
import { csvOf } from "../csv.ts";
import { formatLocalDay, formatMoment, formatName, formatNumber } from "../format.ts";
import { BulkNovation } from "../parts/bulk-novation.tsx";
import { ContractFilters } from "../parts/contract-filters.tsx";
import { CheckBox } from "../design/field.tsx";
import { Face } from "../design/mark.tsx";
import { nameOf } from "../parts/contact.tsx";
import { Empty, Failed, Loaded, Page } from "../design/page.tsx";
import { Pager } from "../design/pager.tsx";
import { Status, Table, Tag } from "../design/table.tsx";
import { useAskCounted } from "../queries.ts";
import { useHere } from "../here.tsx";
import { save } from "../save.ts";
import { texts } from "../texts.ts";

const t = texts.contracts;

export function ContractsPage() {
  const here = useHere();
  const [search] = useSearchParams();
  const choice = choiceFrom(search);
  const contracts = useAskCounted<Contract>(`${here.base}/contracts`, queryOf(choice));
  const [selected, setSelected] = useState<readonly Contract[]>([]);
  const [isNovating, setIsNovating] = useState(false);
  const mayNovate = here.may("PUT", "/contracts/x");
  const isSelected = (contract: Contract) => selected.some(({ id }) => id === contract.id);
  /** Keeps what is selected on other pages. */
  const selectPage = (rows: readonly Contract[], isChecked: boolean) => {
    const others = selected.filter(({ id }) => rows.every((row) => row.id !== id));
    setSelected(isChecked ? [...others, ...rows] : others);
  };
  const toggle = (contract: Contract) =>
    setSelected(isSelected(contract) ? selected.filter(({ id }) => id !== contract.id) : [...selected, contract]);
  const add = here.may("POST", "/contracts") ? (
    <Link className="b primary" to="../new-contract">
      <UserPlus />
      {t.add}
    </Link>
  ) : null;
  return (
    <Page
      title={t.title}
      actions={
        <>
          <Export />
          {mayNovate && choice.service !== "" ? (
            <Link className="b" to={novationOf(choice)}>
              {t.novateAll(choice.service, choice.version)}
            </Link>
          ) : null}
          {add}
        </>
      }
    >
      <ContractFilters choice={choice} />
      <Loaded query={contracts} lines={10}>
        {({ rows, total }) => (
          <>
            <p className="small soft" role="status">
              {t.found(formatNumber(total))}
            </p>
            {selected.length > 0 ? (
              <div className="bulk">
                <b className="strong">{t.selected(selected.length)}</b>
                <span className="grow" />
                <button type="button" className="b small" onClick={() => setIsNovating(true)}>
                  {t.novate}
                </button>
                <button type="button" className="b plain small" onClick={() => setSelected([])}>
                  {t.deselect}
                </button>
              </div>
            ) : null}
            {rows.length === 0 ? (
              <Empty action={add}>{search.size === 0 ? t.none : t.empty}</Empty>
            ) : (
              <Table
                label={t.title}
                className="t-contracts"
                head={[
                  ...(mayNovate
                    ? [
                        <CheckBox
                          key="all"
                          label={t.selectAll}
                          checked={rows.every(isSelected)}
                          onChange={(isChecked) => selectPage(rows, isChecked)}
                        />,
                      ]
                    : []),
                  <SortButton key="user" field="username" label={t.columns.user} />,
                  <SortButton key="email" field="email" label={t.email} />,
                  t.columns.plan,
                  t.version,
                  t.columns.state,
                  t.columns.period,
                ]}
              >
                {rows.map((contract) => (
                  <Row
                    key={contract.id}
                    contract={contract}
                    {...(mayNovate ? { isSelected: isSelected(contract), onToggle: () => toggle(contract) } : {})}
                  />
                ))}
              </Table>
            )}
            <Pager
              page={choice.page}
              pages={Math.max(1, Math.ceil(total / PAGE_SIZE))}
              total={total}
              size={PAGE_SIZE}
            />
          </>
        )}
      </Loaded>
      {isNovating ? (
        <BulkNovation
          contracts={selected}
          onClose={() => {
            setIsNovating(false);
            setSelected([]);
          }}
        />
      ) : null}
    </Page>
  );
}

/** Returns the route for novating all contracts of the chosen service, or of its chosen version. */
function novationOf({ service, version }: ContractChoice): string {
  const search = version === "" ? "" : `?from=${encodeURIComponent(version)}`;
  return `../${path`services/${service}/novate`}${search}`;
}

function Row(props: { contract: Contract; isSelected?: boolean; onToggle?: () => void }) {
  const { contract } = props;
  const { userContact, billingPeriod } = contract;
  const state = stateOf(contract, Date.now());
  const name = nameOf(contract);
  return (
    <tr>
      {props.onToggle === undefined ? null : (
        <td>
          <CheckBox
            label={t.select(userContact.userId)}
            checked={props.isSelected === true}
            onChange={props.onToggle}
          />
        </td>
      )}
      <th scope="row">
        <Link className="row person" to={path`${userContact.userId}`}>
          <Face name={name} />
          <span>
            <b className="strong">{name}</b>
            {userContact.userId === name ? null : <span className="mono faint block">{userContact.userId}</span>}
          </span>
        </Link>
      </th>
      <td>{userContact.email ?? "–"}</td>
      <td>
        {Object.keys(contract.contractedServices).map((service) => (
          <div key={service}>
            {contract.subscriptionPlans[service] ?? texts.novation.noPlan}
            <span className="faint">{addOnsOf(contract, service)}</span>
          </div>
        ))}
      </td>
      <td>
        {Object.entries(contract.contractedServices).map(([service, version]) => (
          <div key={service}>
            {service} {version}
          </div>
        ))}
      </td>
      <td>
        <Status tone={STATE_TONES[state]}>{t.state[state]}</Status>
        {contract.trial === undefined ? null : <Tag tone="info">{texts.upcoming.trial}</Tag>}
      </td>
      <td className="nowrap">
        <time dateTime={billingPeriod.endDate} title={formatMoment(billingPeriod.endDate)}>
          {formatLocalDay(billingPeriod.endDate)}
        </time>
      </td>
    </tr>
  );
}

/** Names the add-ons of a contract: " + Extra tasks × 2". */
function addOnsOf({ subscriptionAddOns }: Contract, service: string): string {
  return Object.entries(subscriptionAddOns[service] ?? {})
    .map(([name, quantity]) => ` + ${formatName(name)}${quantity === 1 ? "" : ` × ${quantity}`}`)
    .join("");
}

/** A column heading that sorts by its column; a second click reverses the order. */
function SortButton({ field, label }: { field: SortField; label: string }) {
  const [search, setSearch] = useSearchParams();
  const choice = choiceFrom(search);
  const isCurrent = choice.sort === field;
  const order = isCurrent && choice.order === "asc" ? "desc" : "asc";
  return (
    <button
      type="button"
      className="sort"
      aria-label={t.sortBy(label)}
      aria-pressed={isCurrent}
      onClick={() =>
        setSearch((before) => {
          before.set("sort", field);
          before.set("order", order);
          before.delete("page");
          return before;
        })
      }
    >
      {label} {isCurrent ? choice.order === "asc" ? <ArrowUp /> : <ArrowDown /> : <ChevronsUpDown />}
    </button>
  );
}

/** Exports all matching contracts as CSV, read page by page. */
function Export() {
  const { base } = useHere();
  const [search] = useSearchParams();
  const [progress, setProgress] = useState<string>();
  const [error, setError] = useState<Error | null>(null);
  const run = async () => {
    setError(null);
    try {
      const contracts = await readAll(`${base}/contracts`, queryOf(choiceFrom(search)), (done, all) =>
        setProgress(t.exporting(done, all)),
      );
      save(new Blob([csvOf(contracts)], { type: "text/csv" }), "contracts.csv");
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    }
    setProgress(undefined);
  };
  return (
    <>
      <Failed error={error} />
      <button type="button" className="b" disabled={progress !== undefined} onClick={() => void run()}>
        <Download />
        {progress ?? t.exportCsv}
      </button>
    </>
  );
}
