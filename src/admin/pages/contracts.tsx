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
  type SearchField,
  stateOf,
} from "../contract-list.ts";
import { csvOf } from "../csv.ts";
import { formatDay, formatNumber } from "../format.ts";
import { BulkNovation } from "../parts/bulk-novation.tsx";
import { ContractFilters } from "../parts/contract-filters.tsx";
import { Empty, Failed, Loaded, Page } from "../parts/page.tsx";
import { Pager } from "../parts/pager.tsx";
import { Badge, Table } from "../parts/table.tsx";
import { useAskCounted } from "../queries.ts";
import { useHere, useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.contracts;
const TONES = { active: "good", renewing: "good", ending: "warn", expired: "danger" } as const;

export function ContractsPage() {
  const here = useHere();
  const [search] = useSearchParams();
  const choice = choiceFrom(search);
  const contracts = useAskCounted<Contract>(`${here.base}/contracts`, queryOf(choice));
  const [selected, setSelected] = useState<readonly Contract[]>([]);
  const [isNovating, setIsNovating] = useState(false);
  const mayNovate = here.may("PUT", "/contracts/x");
  const isSelected = (contract: Contract) => selected.some(({ id }) => id === contract.id);
  const toggle = (contract: Contract) =>
    setSelected(isSelected(contract) ? selected.filter(({ id }) => id !== contract.id) : [...selected, contract]);
  const add = here.may("POST", "/contracts") ? (
    <Link className="button primary" to="../new-contract">
      {t.add}
    </Link>
  ) : null;
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        <>
          <Export />
          {mayNovate && choice.service !== "" ? (
            <Link className="button" to={novationOf(choice)}>
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
            <div className="actions" role="status">
              <span>{t.found(formatNumber(total))}</span>
              {selected.length > 0 ? (
                <button type="button" className="button" onClick={() => setIsNovating(true)}>
                  {t.novate(selected.length)}
                </button>
              ) : null}
            </div>
            {rows.length === 0 ? (
              <Empty action={add}>{search.size === 0 ? t.none : t.empty}</Empty>
            ) : (
              <Table
                label={t.title}
                head={[
                  ...(mayNovate
                    ? [
                        <input
                          key="all"
                          type="checkbox"
                          aria-label={t.selectAll}
                          checked={rows.every(isSelected)}
                          onChange={({ target }) => setSelected(target.checked ? rows : [])}
                        />,
                      ]
                    : []),
                  <SortButton key="user" field="username" label={t.columns.user} />,
                  <SortButton key="email" field="email" label={t.fields.email} />,
                  t.columns.subscription,
                  t.columns.period,
                  t.columns.group,
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
            <Pager page={choice.page} pages={Math.max(1, Math.ceil(total / PAGE_SIZE))} />
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
  return (
    <tr>
      {props.onToggle === undefined ? null : (
        <td>
          <input
            type="checkbox"
            aria-label={t.select(userContact.userId)}
            checked={props.isSelected === true}
            onChange={props.onToggle}
          />
        </td>
      )}
      <th scope="row">
        <Link to={path`${userContact.userId}`}>{userContact.username}</Link>
        {userContact.userId === userContact.username ? null : <p className="hint">{userContact.userId}</p>}
      </th>
      <td>{userContact.email ?? "–"}</td>
      <td>
        {Object.entries(contract.contractedServices).map(([service, version]) => (
          <div key={service}>
            {service} {version}{" "}
            <Badge tone="plain">{contract.subscriptionPlans[service] ?? texts.novation.noPlan}</Badge>
          </div>
        ))}
      </td>
      <td>
        <Badge tone={TONES[state]}>{t.state[state]}</Badge> {t.until(formatDay(billingPeriod.endDate))}
      </td>
      <td>{contract.groupId ?? "–"}</td>
    </tr>
  );
}

/** A column heading that sorts by its column; a second click reverses the order. */
function SortButton({ field, label }: { field: SearchField; label: string }) {
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
      {label} <span aria-hidden="true">{isCurrent ? (choice.order === "asc" ? "↑" : "↓") : "↕"}</span>
    </button>
  );
}

/** Exports all matching contracts as CSV, read page by page. */
function Export() {
  const { base } = useHere();
  const { apiKey } = useUser();
  const [search] = useSearchParams();
  const [progress, setProgress] = useState<string>();
  const [error, setError] = useState<Error | null>(null);
  const run = async () => {
    setError(null);
    try {
      const contracts = await readAll(`${base}/contracts`, queryOf(choiceFrom(search)), apiKey, (done, all) =>
        setProgress(t.exporting(done, all)),
      );
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csvOf(contracts)], { type: "text/csv" }));
      link.download = "contracts.csv";
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    }
    setProgress(undefined);
  };
  return (
    <>
      <Failed error={error} />
      <button type="button" className="button" disabled={progress !== undefined} onClick={() => void run()}>
        {progress ?? t.exportCsv}
      </button>
    </>
  );
}
