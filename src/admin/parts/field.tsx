import { useId, type ReactNode } from "react";

/** A form that calls a function on submit and never navigates. */
export function Form(props: { onSubmit: () => void; className?: string; label?: string; children: ReactNode }) {
  return (
    <form
      className={props.className}
      aria-label={props.label}
      onSubmit={(event) => {
        event.preventDefault();
        props.onSubmit();
      }}
    >
      {props.children}
    </form>
  );
}

interface Labelled {
  label: string;
  hint?: ReactNode;
  /** Validation message for the value. */
  problem?: string | undefined;
}

function Frame(props: Labelled & { id: string; children: ReactNode }) {
  const { id, label, hint, problem } = props;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {props.children}
      {hint === undefined ? null : (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {problem === undefined ? null : (
        <p className="problem" id={`${id}-problem`} role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}

function describedBy(id: string, { hint, problem }: Labelled): { "aria-describedby"?: string; "aria-invalid"?: true } {
  const ids = [hint === undefined ? "" : `${id}-hint`, problem === undefined ? "" : `${id}-problem`].filter(Boolean);
  return {
    ...(ids.length === 0 ? {} : { "aria-describedby": ids.join(" ") }),
    ...(problem === undefined ? {} : { "aria-invalid": true as const }),
  };
}

/** A labelled single-line input: text, number, password, … */
export function Field(
  props: Labelled & {
    value: string | number;
    onChange: (value: string) => void;
    type?: "text" | "password" | "number" | "email" | "search" | "url" | "date" | "datetime-local";
    autoComplete?: string;
    required?: boolean;
    disabled?: boolean;
    min?: number;
    max?: number;
    step?: number | "any";
    list?: string;
    placeholder?: string;
  },
) {
  const id = useId();
  const { value, onChange, type = "text", autoComplete = "off", required, disabled, min, max, step, list } = props;
  return (
    <Frame {...props} id={id}>
      <input
        id={id}
        type={type}
        value={value}
        autoComplete={autoComplete}
        required={required}
        disabled={disabled}
        min={min}
        max={max}
        step={step}
        list={list}
        placeholder={props.placeholder}
        onChange={(event) => onChange(event.target.value)}
        {...describedBy(id, props)}
      />
    </Frame>
  );
}

export function Select<T extends string>(
  props: Labelled & {
    value: T;
    onChange: (value: T) => void;
    options: readonly (readonly [value: T, label: string])[];
    disabled?: boolean;
  },
) {
  const id = useId();
  return (
    <Frame {...props} id={id}>
      <select
        id={id}
        value={props.value}
        disabled={props.disabled}
        onChange={(event) => {
          const chosen = props.options.find(([value]) => value === event.target.value);
          if (chosen !== undefined) props.onChange(chosen[0]);
        }}
        {...describedBy(id, props)}
      >
        {props.options.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </Frame>
  );
}

export function Area(
  props: Labelled & { value: string; onChange: (value: string) => void; rows?: number; isCode?: boolean },
) {
  const id = useId();
  return (
    <Frame {...props} id={id}>
      <textarea
        id={id}
        rows={props.rows ?? 6}
        value={props.value}
        spellCheck={props.isCode !== true}
        className={props.isCode === true ? "code" : undefined}
        onChange={(event) => props.onChange(event.target.value)}
        {...describedBy(id, props)}
      />
    </Frame>
  );
}

export function Check(props: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={props.checked} onChange={(event) => props.onChange(event.target.checked)} />
      <span>{props.label}</span>
    </label>
  );
}
