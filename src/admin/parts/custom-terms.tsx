import { Pencil, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import type { FeatureValue } from "../../core/pricing/model.ts";
import { findElement, type OverrideKind, type PricingElement } from "../../core/pricing/overrides.ts";
import { PAYMENT_METHODS } from "../../core/pricing/model.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import type { Contract, Override } from "../answers.ts";
import { call, path } from "../api.ts";
import { Delta } from "../design/change.tsx";
import { Dialog } from "../design/dialog.tsx";
import { Check, Field, Form, Segment, Select } from "../design/field.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Failed, Section } from "../design/page.tsx";
import { Status } from "../design/table.tsx";
import { formatDay, formatMoment, formatName, formatValue, momentOf } from "../format.ts";
import { useHere } from "../here.tsx";
import { choiceOf, grantOf } from "../pricing.ts";
import { usePricings } from "../pricings.ts";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";

const t = texts.terms;
export const TONES = { active: "good", upcoming: "info", inapplicable: "warn", ended: "plain" } as const;

/** The element that an override is set on. */
type Element = Pick<Override, "service" | "kind" | "name">;

/** Body of the call that sets an override. */
type Change = Pick<Override, "mode" | "value" | "reason"> & { from?: string | undefined; until?: string | undefined };

/** The input of a change: without a body, the override is removed. */
interface Input {
  element: Element;
  body: Change | undefined;
}

const bodyOf = ({ mode, value, reason, from, until }: Override): Change => ({
  mode,
  value,
  reason,
  from,
  ...(until === null ? {} : { until }),
});

/** Sets or removes overrides of one contract. The message offers the true inverse. */
export function useTerms(contract: Pick<Contract, "userContact" | "overrides">, after?: () => void) {
  const { base, may } = useHere();
  const { userId } = contract.userContact;
  const placeOf = ({ service, kind, name }: Element) => path`/contracts/${userId}/overrides/${service}/${kind}/${name}`;
  const any = placeOf({ service: "x", kind: "features", name: "x" });
  const mayRemove = may("DELETE", any);
  const change = useChange({
    change: ({ element, body }: Input) =>
      body === undefined ? call("DELETE", base + placeOf(element)) : call("PUT", base + placeOf(element), { body }),
    touches: () => [`${base}/contracts`, `${base}/overrides`],
    done: (_, { body }) => (body === undefined ? t.removed : t.saved(nameOf(contract))),
    undo: (_, { element }) => {
      const before = contract.overrides?.find((each) => isSame(each, element));
      if (before !== undefined) return { element, body: bodyOf(before) };
      return mayRemove ? { element, body: undefined } : undefined;
    },
    after: () => after?.(),
  });
  return { change, maySet: may("PUT", any), mayRemove };
}

const isSame = (one: Element, other: Element): boolean =>
  one.service === other.service && one.kind === other.kind && one.name === other.name;

/** Lists a contract's exceptions that have not ended, and lets managers add and change them. */
export function CustomTerms({ contract }: { contract: Contract }) {
  const [edited, setEdited] = useState<Override | "new">();
  const { maySet } = useTerms(contract);
  const isNow = contract.asOf === undefined;
  const { overrides = [] } = contract;
  const hasElements = Object.keys(contract.contractedServices).length > 0;
  return (
    <Section
      title={t.title}
      actions={
        maySet && isNow && hasElements ? (
          <button type="button" className="b plain small" aria-label={t.addTo} onClick={() => setEdited("new")}>
            <Plus />
            {t.add}
          </button>
        ) : null
      }
    >
      {overrides.length === 0 ? <p className="small soft">{t.none}</p> : null}
      {overrides.map((override) => (
        <Term
          key={`${override.service} ${override.kind} ${override.name}`}
          override={override}
          contract={contract}
          onEdit={() => setEdited(override)}
        />
      ))}
      {edited === undefined ? null : (
        <Editor
          contract={contract}
          override={edited === "new" ? undefined : edited}
          onClose={() => setEdited(undefined)}
        />
      )}
    </Section>
  );
}

function Term(props: { override: Override; contract: Contract; onEdit: () => void }) {
  const { override, contract } = props;
  const { change, maySet, mayRemove } = useTerms(contract);
  const { name, state, from, until, reason } = override;
  const times = [
    ...(state === "upcoming" ? [t.begins(formatDay(from))] : []),
    until === null ? `${t.noEnd}.` : t.ends(formatDay(until)),
  ];
  return (
    <div className="term">
      <div className="row between">
        <b className="strong" title={`${override.service}-${name}`}>
          {formatName(name)}
        </b>
        <span className="row">
          <Values override={override} />
          {contract.asOf === undefined && (maySet || mayRemove) ? (
            <MoreMenu label={t.more(formatName(name))} isSmall>
              {maySet ? (
                <MenuItem icon={Pencil} onSelect={props.onEdit}>
                  {t.edit}
                </MenuItem>
              ) : null}
              {mayRemove ? (
                <MenuItem icon={Trash2} isBad onSelect={() => change.mutate({ element: override, body: undefined })}>
                  {t.remove}
                </MenuItem>
              ) : null}
            </MoreMenu>
          ) : null}
        </span>
      </div>
      {state === "active" ? null : <Status tone={TONES[state]}>{t.states[state]}</Status>}
      <p className="small soft" title={until === null ? undefined : formatMoment(until)}>
        {times.join(" ")} “{reason}”, {t.by(actorName(override))}
      </p>
      {isOutdone(override) ? <p className="small soft">{t.superfluous}</p> : null}
      <Failed error={change.error} />
    </div>
  );
}

/** The value that plan and add-ons give, and what the override makes of it. */
export function Values({ override }: { override: Override }) {
  const { granted, effective, state, mode, value } = override;
  if (state === "active") {
    return <Delta before={formatValue(granted ?? undefined)} after={formatValue(effective ?? undefined)} />;
  }
  const sign = mode === "add" && typeof value === "number" && value > 0 ? "+" : "";
  return <span className="soft">{sign + formatValue(value)}</span>;
}

/** True if the plan has caught up: without the override nothing would be less. */
const isOutdone = ({ state, mode, granted, value }: Override): boolean =>
  state === "active" &&
  mode === "set" &&
  (typeof granted === "number" && typeof value === "number"
    ? granted >= value
    : granted === true || JSON.stringify(granted) === JSON.stringify(value));

/** Name of an author. Keys may have none, and users may be deleted. */
export const actorName = ({ actor }: Pick<Override, "actor">): string =>
  actor.name ?? (actor.kind === "key" ? t.key : "–");

/** Inputs of the form, as the fields hold them. */
interface Draft {
  mode: Override["mode"];
  value: FeatureValue | undefined;
  from: string;
  until: string;
  reason: string;
}

/** Converts a moment to the local day of a date field. */
const dayOf = (moment: string | null): string =>
  moment === null
    ? ""
    : new Date(Date.parse(moment) - new Date(moment).getTimezoneOffset() * 60_000).toISOString().slice(0, 10);

function Editor(props: { contract: Contract; override: Override | undefined; onClose: () => void }) {
  const { contract, override, onClose } = props;
  const contracted = Object.entries(contract.contractedServices);
  const { pricingOf } = usePricings(contracted);
  const elements = contracted.flatMap(([service, version]) =>
    elementsOf(contract, service, pricingOf(service, version)),
  );
  const [chosen, setChosen] = useState(override === undefined ? "" : keyOf(override));
  const found = elements.find(({ key }) => key === chosen) ?? elements[0];
  const [draft, setDraft] = useState<Draft>({
    mode: override?.mode ?? "set",
    value: override?.value,
    from: override?.state === "upcoming" ? dayOf(override.from) : "",
    until: dayOf(override?.until ?? null),
    reason: override?.reason ?? "",
  });
  const { change } = useTerms(contract, onClose);
  if (found === undefined) return null;
  const { element, of } = found;
  const isNumericLimit = element.kind === "usageLimits" && typeof of.defaultValue === "number";
  const mode = isNumericLimit ? draft.mode : "set";
  const value = draft.value ?? (mode === "add" ? 0 : found.now);
  const save = () =>
    change.mutate({
      element,
      body: {
        mode,
        value: value as Override["value"],
        reason: draft.reason,
        from: momentOf(draft.from),
        until: momentOf(draft.until),
      },
    });
  return (
    <Dialog
      title={override === undefined ? t.addTitle(nameOf(contract)) : t.changeTitle(formatName(override.name))}
      onClose={onClose}
    >
      <Form onSubmit={save}>
        {override === undefined ? (
          <Select
            label={t.element}
            value={found.key}
            onChange={(key) => {
              setChosen(key);
              setDraft({ ...draft, value: undefined, mode: "set" });
            }}
            options={elements.map(({ key, label }) => [key, label])}
          />
        ) : null}
        {isNumericLimit ? (
          <Segment
            label={t.mode}
            value={mode}
            onChange={(to) => setDraft({ ...draft, mode: to, value: undefined })}
            options={[
              ["set", t.modes.set],
              ["add", t.modes.add],
            ]}
          />
        ) : null}
        <ValueField
          mode={mode}
          isLimit={element.kind === "usageLimits"}
          value={value}
          onChange={(to) => setDraft({ ...draft, value: to })}
        />
        <div className="fields">
          <Field
            label={t.from}
            hint={t.fromHint}
            type="date"
            value={draft.from}
            onChange={(from) => setDraft({ ...draft, from })}
          />
          <Field
            label={t.until}
            hint={t.untilHint}
            type="date"
            value={draft.until}
            onChange={(until) => setDraft({ ...draft, until })}
          />
        </div>
        <Field
          label={t.reason}
          hint={t.reasonHint}
          value={draft.reason}
          onChange={(reason) => setDraft({ ...draft, reason })}
          required
        />
        <Failed error={change.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={change.isPending}>
            {t.save}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

const keyOf = ({ service, kind, name }: Element): string => `${service} ${kind} ${name}`;

/**
 * Lists everything of a version that an override can be set on, with its value now. Limits are first: exceptions are
 * usually about them.
 */
function elementsOf(
  contract: Contract,
  service: string,
  pricing: CompiledPricing | undefined,
): { key: string; label: string; element: Element; of: PricingElement; now: FeatureValue }[] {
  if (pricing === undefined) return [];
  const isNamed = Object.keys(contract.contractedServices).length > 1;
  const granted = grantOf(pricing, choiceOf(contract, service));
  return (["usageLimits", "features"] as const).flatMap((kind: OverrideKind) =>
    pricing.pricing[kind].flatMap(({ name }) => {
      const element = { service, kind, name };
      const of = findElement(pricing, element);
      if (of === undefined) return [];
      const label = kind === "features" ? t.feature(formatName(name)) : t.limit(formatName(name));
      const now = granted[kind].get(name) ?? of.defaultValue;
      return [{ key: keyOf(element), label: isNamed ? `${service}: ${label}` : label, element, of, now }];
    }),
  );
}

/** The input for a value, by its type. */
function ValueField(props: {
  mode: Override["mode"];
  isLimit: boolean;
  value: FeatureValue;
  onChange: (value: FeatureValue) => void;
}) {
  const { mode, isLimit, value, onChange } = props;
  if (typeof value === "boolean") {
    return (
      <Segment
        label={t.value}
        value={String(value) as "true" | "false"}
        onChange={(chosen) => onChange(chosen === "true")}
        options={[
          ["true", texts.common.yes],
          ["false", texts.common.no],
        ]}
      />
    );
  }
  if (typeof value === "number") {
    return (
      <Field
        label={t.value}
        hint={mode === "add" ? t.amount : isLimit ? t.unlimitedHint : undefined}
        type="number"
        step="any"
        {...(isLimit && mode === "set" ? { min: 0 } : {})}
        value={value}
        onChange={(text) => onChange(Number(text))}
        required
      />
    );
  }
  if (typeof value === "string") return <Field label={t.value} value={value} onChange={onChange} />;
  return (
    <fieldset>
      <legend>{t.methods}</legend>
      <div className="checks">
        {PAYMENT_METHODS.map((method) => (
          <Check
            key={method}
            label={method}
            checked={value.includes(method)}
            onChange={(isChosen) => onChange(isChosen ? [...value, method] : value.filter((each) => each !== method))}
          />
        ))}
      </div>
    </fieldset>
  );
}
