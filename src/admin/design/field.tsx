import { Check as CheckIcon, ChevronDown, Eye, EyeOff, type LucideIcon } from "lucide-react";
import { useId, useState, type ReactNode } from "react";
import { texts } from "../texts.ts";

/** A form that calls a function on submit and never navigates. */
export function Form(props: { onSubmit: () => void; className?: string; label?: string; children: ReactNode }) {
  return (
    <form
      className={props.className ?? "stack wide"}
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
      <label className="label" htmlFor={id}>
        {label}
      </label>
      {props.children}
      {problem === undefined ? null : (
        <p className="problem" id={`${id}-problem`} role="alert">
          {problem}
        </p>
      )}
      {hint === undefined ? null : (
        <p className="hint" id={`${id}-hint`}>
          {hint}
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

type FieldType = "text" | "password" | "number" | "email" | "search" | "url" | "date" | "datetime-local";

/** Without a last day, browsers take years of six digits, which no date of the API has. */
const LAST: Partial<Record<FieldType, string>> = { date: "9999-12-31", "datetime-local": "9999-12-31T23:59:59" };

/** A labelled single-line input: text, number, password, … */
export function Field(
  props: Labelled & {
    value: string | number;
    onChange: (value: string) => void;
    type?: FieldType;
    icon?: LucideIcon;
    autoComplete?: string;
    autoFocus?: boolean;
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
  const [isShown, setIsShown] = useState(false);
  const Icon = props.icon;
  return (
    <Frame {...props} id={id}>
      <span className={`in ${type}`}>
        {Icon === undefined ? null : <Icon />}
        <input
          id={id}
          type={isShown ? "text" : type}
          value={value}
          autoComplete={autoComplete}
          // oxlint-disable-next-line jsx-a11y/no-autofocus -- the only field of a page that asks for it
          autoFocus={props.autoFocus}
          required={required}
          disabled={disabled}
          min={min}
          max={max ?? LAST[type]}
          step={step}
          list={list}
          placeholder={props.placeholder}
          onChange={(event) => onChange(event.target.value)}
          {...describedBy(id, props)}
        />
        {type === "password" ? (
          <button
            type="button"
            className="b plain icon small"
            aria-label={isShown ? texts.common.hidePassword : texts.common.showPassword}
            aria-pressed={isShown}
            onClick={() => setIsShown(!isShown)}
          >
            {isShown ? <EyeOff /> : <Eye />}
          </button>
        ) : null}
      </span>
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
      <span className="in select">
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
        <ChevronDown />
      </span>
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
        className={props.isCode === true ? "in area mono" : "in area"}
        onChange={(event) => props.onChange(event.target.value)}
        {...describedBy(id, props)}
      />
    </Frame>
  );
}

export function Check(props: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label className="choice-label">
      <CheckBox checked={props.checked} onChange={props.onChange} />
      <span>{props.label}</span>
    </label>
  );
}

/** A checkbox without a visible label, for table rows. */
export function CheckBox(props: { label?: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <span className={props.checked ? "check on" : "check"}>
      <input
        type="checkbox"
        aria-label={props.label}
        checked={props.checked}
        onChange={(event) => props.onChange(event.target.checked)}
      />
      {props.checked ? <CheckIcon /> : null}
    </span>
  );
}

/** A short choice between two to four words. */
export function Segment<T extends string>(props: {
  label: string;
  value: T;
  onChange: (value: T) => void;
  options: readonly (readonly [value: T, label: ReactNode])[];
}) {
  const name = useId();
  return (
    <div className="seg" role="radiogroup" aria-label={props.label}>
      {props.options.map(([value, label]) => (
        <label key={value} data-on={value === props.value}>
          <input type="radio" name={name} checked={value === props.value} onChange={() => props.onChange(value)} />
          {label}
        </label>
      ))}
    </div>
  );
}
