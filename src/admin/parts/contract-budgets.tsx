import { Pencil, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import type { Budget, BudgetList, Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { type BudgetNode, budgetTree } from "../budget-tree.ts";
import { Confirm } from "../design/dialog.tsx";
import { Meter } from "../design/meter.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Empty, Failed, Loaded, Section } from "../design/page.tsx";
import { Tag } from "../design/table.tsx";
import { formatLocalDay, formatDistance, formatMoment, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk, useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { limitTitle, SetBudget } from "./set-budget.tsx";
import { useNow } from "./usage-bar.tsx";

const t = texts.budgets;
const REFRESH_MS = 10_000;
/** Most spenders of each budget in a list. */
const LISTED_SPENDERS = 10;

interface Asked {
  readonly kind: "change" | "remove";
  readonly budget: Budget;
}

/** Shows the budgets of a contract as a tree of spenders. Managers set, change and remove them. */
export function ContractBudgets({ contract }: { contract: Contract }) {
  const { base, may } = useHere();
  const [asks, setAsks] = useState<"set" | Asked>();
  const rest = path`/contracts/${contract.userContact.userId}/budgets`;
  const to = base + rest;
  const list = useAsk<BudgetList>(to, {}, { refetchInterval: REFRESH_MS });
  const maySet = may("PUT", `${rest}/x`);
  const close = () => setAsks(undefined);
  const names = list.data?.data.map(({ name }) => name) ?? [];
  return (
    <Section
      title={t.title}
      lead={t.lead}
      actions={
        maySet ? (
          <button type="button" className="b" onClick={() => setAsks("set")}>
            <Plus />
            {t.set}
          </button>
        ) : null
      }
    >
      <Loaded query={list} lines={6}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty>{t.none}</Empty>
          ) : (
            <Nodes nodes={budgetTree(data)} to={to} contract={contract} onAsk={maySet ? setAsks : undefined} />
          )
        }
      </Loaded>
      {asks === "set" ? <SetBudget to={to} contract={contract} names={names} onClose={close} /> : null}
      {typeof asks === "object" && asks.kind === "change" ? (
        <SetBudget to={to} contract={contract} names={names} budget={asks.budget} onClose={close} />
      ) : null}
      {typeof asks === "object" && asks.kind === "remove" ? (
        <RemoveBudget to={to} name={asks.budget.name} onClose={close} />
      ) : null}
    </Section>
  );
}

interface Around {
  to: string;
  contract: Contract;
  onAsk: ((asked: Asked) => void) | undefined;
}

function Nodes({ nodes, ...around }: Around & { nodes: readonly BudgetNode[] }) {
  return (
    <ul className="budgets">
      {nodes.map((node) => (
        <li key={node.spender} aria-label={node.spender ?? t.contract}>
          <h3 className={node.spender === null ? undefined : "mono"}>{node.spender ?? t.contract}</h3>
          {node.spender?.split("/").includes("*") === true ? <p className="hint">{t.eachHere}</p> : null}
          {node.budgets.map((budget) => (
            <BudgetRow key={budget.name} budget={budget} {...around} />
          ))}
          {node.inside.length === 0 ? null : <Nodes nodes={node.inside} {...around} />}
        </li>
      ))}
    </ul>
  );
}

const windowText = ({ window }: Budget): string =>
  typeof window === "string" ? t.windows[window] : t.each(window.value, window.unit);

function BudgetRow({ budget, to, contract, onAsk }: Around & { budget: Budget }) {
  const [isWhole, setWhole] = useState(false);
  const whole = useAsk<Budget>(isWhole ? to + path`/${budget.name}` : undefined);
  const { name, limit, amount, unit, mode, until } = budget;
  const balances = whole.data?.balances ?? budget.balances;
  const facts = [
    limit === null ? t.gone : limitTitle(contract, limit),
    ...(unit === null ? [] : [unit]),
    typeof amount === "number" ? formatNumber(amount) : amount,
    windowText(budget),
    ...(until === null ? [] : [t.ends(formatLocalDay(until))]),
  ];
  return (
    <div className="term">
      <div className="row between">
        <span className="row">
          <b className="strong">{name}</b>
          {mode === "warn" ? <Tag>{t.warns}</Tag> : null}
        </span>
        {onAsk === undefined ? null : (
          <MoreMenu label={t.more(name)} isSmall>
            <MenuItem icon={Pencil} onSelect={() => onAsk({ kind: "change", budget })}>
              {t.change}
            </MenuItem>
            <MenuItem icon={Trash2} isBad onSelect={() => onAsk({ kind: "remove", budget })}>
              {t.remove}
            </MenuItem>
          </MoreMenu>
        )}
      </div>
      <p className="small soft" title={limit ?? undefined}>
        {facts.join(", ")}
      </p>
      {balances.length === 0 ? <p className="small soft">{t.noUse}</p> : null}
      {balances.map((balance) => (
        <BalanceBar key={balance.spender} budget={budget} balance={balance} />
      ))}
      <LastDenial budget={budget} />
      <Failed error={whole.error} />
      {!isWhole && balances.length >= LISTED_SPENDERS ? (
        <div className="actions">
          <button type="button" className="b small" onClick={() => setWhole(true)}>
            {t.showMore}
          </button>
        </div>
      ) : null}
    </div>
  );
}

/** Names the call that a budget denied last. */
function LastDenial({ budget: { denied } }: { budget: Budget }) {
  const now = useNow();
  if (denied === null) return null;
  const { spender, amount, at } = denied;
  return (
    <p className="small soft" title={formatMoment(at)}>
      {t.denied(
        spender,
        amount > 0 ? formatNumber(amount) : undefined,
        formatDistance(at, Math.max(now, Date.parse(at))),
      )}
    </p>
  );
}

function BalanceBar({ budget, balance }: { budget: Budget; balance: Budget["balances"][number] }) {
  const now = useNow();
  const { amountNow, name } = budget;
  const { spender, used, held, remaining, resetAt } = balance;
  const shareOf = (part: number) => (amountNow === null ? 0 : amountNow === 0 ? 1 : part / amountNow);
  const figures = [
    amountNow === null
      ? texts.contract.usedUnlimited(formatNumber(used))
      : texts.contract.used(formatNumber(used), formatNumber(amountNow)),
    ...(held > 0 ? [texts.contract.alsoHeld(formatNumber(held))] : []),
    ...(remaining === null ? [] : [t.left(formatNumber(remaining))]),
  ];
  return (
    <div className="meter-block">
      {spender === null ? null : <span className="mono small">{spender}</span>}
      {amountNow === null ? null : (
        <Meter
          label={spender === null ? name : `${name}: ${spender}`}
          share={shareOf(used)}
          held={held > 0 ? shareOf(held) : 0}
        />
      )}
      <span className="meter-figures">
        <span>{figures.join(", ")}</span>
        {resetAt === null ? (
          <span>{texts.contract.neverResets}</span>
        ) : (
          <time dateTime={resetAt} title={formatMoment(resetAt)}>
            {texts.contract.resets(formatDistance(resetAt, now))}
          </time>
        )}
      </span>
    </div>
  );
}

function RemoveBudget({ to, name, onClose }: { to: string; name: string; onClose: () => void }) {
  const { base } = useHere();
  const gone = to + path`/${name}`;
  const remove = useChange({
    change: () => call("DELETE", gone),
    touches: () => [`${base}/contracts`],
    gone,
    done: () => t.removed(name),
    after: onClose,
  });
  return (
    <Confirm title={t.removeTitle(name)} action={t.remove} keep={t.keep} change={remove} onClose={onClose}>
      <p>{t.removeLead}</p>
    </Confirm>
  );
}
