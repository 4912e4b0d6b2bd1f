import { useState } from "react";
import { BUDGET_ANCHORS, BUDGET_MODES, BUDGET_UNITS } from "../../core/pricing/budgets.ts";
import { DEFAULT_THRESHOLDS } from "../../core/usage-alerts.ts";
import type { Budget, BudgetTerms, Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { Dialog } from "../design/dialog.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { Failed } from "../design/page.tsx";
import { formatName, momentOf } from "../format.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.budgets;
const WINDOWS = ["period", "life", ...BUDGET_UNITS] as const;

/** Returns the title of a limit id, with its service where the contract has several. */
export function limitTitle({ contractedServices }: Contract, id: string): string {
  const services = Object.keys(contractedServices);
  const service = services.find((each) => id.startsWith(`${each}-`));
  if (service === undefined) return id;
  const name = formatName(id.slice(service.length + 1));
  return services.length > 1 ? `${service}: ${name}` : name;
}

/** A local day, as a date field has it. */
function dayOf(iso: string | null): string {
  if (iso === null) return "";
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 10);
}

function draftOf(budget: Budget | undefined, limit: string) {
  const window = budget?.window ?? "period";
  const length = typeof window === "string" ? undefined : window;
  return {
    name: budget?.name ?? "",
    limit: budget?.limit ?? limit,
    spender: budget?.spender ?? "",
    amount: budget === undefined ? "" : String(budget.amount),
    unit: budget?.unit ?? "",
    window: typeof window === "string" ? window : window.unit,
    length: String(length?.value ?? 1),
    anchor: length?.anchor ?? "utc",
    mode: budget?.mode ?? "stop",
    until: dayOf(budget?.until ?? null),
    thresholds: (budget?.thresholds ?? DEFAULT_THRESHOLDS).join(", "),
  } satisfies Record<string, string>;
}
type Draft = { -readonly [Name in keyof ReturnType<typeof draftOf>]: ReturnType<typeof draftOf>[Name] };

const orNull = (text: string): string | null => (text.trim() === "" ? null : text.trim());
const numbersIn = (text: string): number[] =>
  (orNull(text)?.split(",") ?? []).map((each) => Number(each.trim() || "0"));

function termsOf(draft: Draft, budget: Budget | undefined) {
  const { window, anchor, amount } = draft;
  const isKept = draft.until === dayOf(budget?.until ?? null);
  return {
    limit: draft.limit,
    spender: orNull(draft.spender),
    unit: orNull(draft.unit),
    amount: Number.isNaN(Number(amount)) ? amount.trim() : Number(amount),
    window: window === "period" || window === "life" ? window : { value: Number(draft.length), unit: window, anchor },
    mode: draft.mode,
    until: isKept ? (budget?.until ?? null) : (momentOf(draft.until) ?? null),
    thresholds: numbersIn(draft.thresholds),
  } satisfies Record<keyof BudgetTerms, unknown>;
}

/** Sets a new budget, or changes one. */
export function SetBudget(props: {
  to: string;
  contract: Contract;
  /** Names that are in use. */
  names: readonly string[];
  budget?: Budget;
  onClose: () => void;
}) {
  const { to, contract, budget, onClose } = props;
  const { base } = useHere();
  const limits = (contract.balances ?? [])
    .filter(({ limitNow }) => typeof limitNow !== "boolean")
    .map(({ service, limit }) => `${service}-${limit}`);
  const [draft, setDraft] = useState<Draft>(() => draftOf(budget, limits[0] ?? ""));
  const put = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  const isTaken = budget === undefined && props.names.includes(draft.name.trim());
  const save = useChange({
    change: (body: ReturnType<typeof termsOf>) => call<Budget>("PUT", to + path`/${draft.name.trim()}`, { body }),
    touches: () => [`${base}/contracts`],
    done: ({ name }) => t.saved(name),
    after: onClose,
  });
  return (
    <Dialog title={budget === undefined ? t.setTitle : t.changeTitle(budget.name)} onClose={onClose}>
      <Form
        onSubmit={() => {
          if (!isTaken) save.mutate(termsOf(draft, budget));
        }}
      >
        {budget === undefined ? (
          <Field
            label={t.name}
            value={draft.name}
            onChange={(name) => put({ name })}
            problem={isTaken ? t.isTaken : undefined}
            required
          />
        ) : null}
        <Select
          label={t.limit}
          value={draft.limit}
          onChange={(limit) => put({ limit })}
          options={limits.map((id) => [id, limitTitle(contract, id)])}
        />
        <Field label={t.spender} hint={t.spenderHint} value={draft.spender} onChange={(spender) => put({ spender })} />
        <div className="fields">
          <Field
            label={t.amount}
            hint={t.amountHint}
            value={draft.amount}
            onChange={(amount) => put({ amount })}
            required
          />
          <Field label={t.unit} hint={t.unitHint} value={draft.unit} onChange={(unit) => put({ unit })} />
        </div>
        <WindowFields draft={draft} put={put} />
        <div className="fields">
          <Select
            label={t.mode}
            value={draft.mode}
            onChange={(mode) => put({ mode })}
            options={BUDGET_MODES.map((each) => [each, t.modes[each]])}
          />
          <Field
            label={t.thresholds}
            hint={t.thresholdsHint}
            value={draft.thresholds}
            onChange={(thresholds) => put({ thresholds })}
          />
        </div>
        <Field
          label={t.until}
          hint={t.untilHint}
          type="date"
          value={draft.until}
          onChange={(until) => put({ until })}
        />
        <Failed error={save.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={save.isPending}>
            {t.save}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

function WindowFields({ draft, put }: { draft: Draft; put: (change: Partial<Draft>) => void }) {
  const isLength = draft.window !== "period" && draft.window !== "life";
  return (
    <div className="fields">
      <Select
        label={t.window}
        value={draft.window}
        onChange={(window) => put({ window })}
        options={WINDOWS.map((each) => [each, t.windows[each]])}
      />
      {isLength ? (
        <>
          <Field
            label={t.length}
            type="number"
            min={1}
            max={1000}
            value={draft.length}
            onChange={(length) => put({ length })}
            required
          />
          <Select
            label={t.anchor}
            value={draft.anchor}
            onChange={(anchor) => put({ anchor })}
            options={BUDGET_ANCHORS.map((each) => [each, t.anchors[each]])}
          />
        </>
      ) : null}
    </div>
  );
}
