import { useState } from "react";
import { type FeatureValue, PAYMENT_METHODS } from "../../core/pricing/model.ts";
import { findElement, type OverrideKind, type PricingElement } from "../../core/pricing/overrides.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import type { Contract, Override } from "../answers.ts";
import { Dialog } from "../design/dialog.tsx";
import { Check, Field, Form, Segment, Select } from "../design/field.tsx";
import { Failed } from "../design/page.tsx";
import { formatName, momentOf } from "../format.ts";
import { choiceOf, grantOf } from "../pricing.ts";
import { usePricings } from "../pricings.ts";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";
import { type Element, useTerms } from "./use-terms.ts";
import { DatesAndReason } from "./dates-and-reason.tsx";

const t = texts.terms;

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

export function TermEditor(props: { contract: Contract; override: Override | undefined; onClose: () => void }) {
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
        <DatesAndReason draft={draft} labels={t} onChange={setDraft} />
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
