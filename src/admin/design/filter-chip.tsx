import { Check, Plus, X } from "lucide-react";
import { texts } from "../texts.ts";
import { Menu, MenuItem } from "./menu.tsx";

/** A filter of a list: closed it names what it filters by, chosen it shows the value and can be cleared. */
export function FilterChip<T extends string>(props: {
  label: string;
  /** "" for no filter. */
  value: T | "";
  onChange: (value: T | "") => void;
  options: readonly (readonly [value: T, label: string])[];
}) {
  const { label, value, onChange, options } = props;
  const shown = options.find(([each]) => each === value)?.[1] ?? value;
  return (
    <span className={value === "" ? "filter" : "filter on"}>
      <Menu
        label={label}
        hasText
        className="filter-open"
        trigger={
          value === "" ? (
            <>
              <Plus />
              {label}
            </>
          ) : (
            <>
              {label} <b>{shown}</b>
            </>
          )
        }
      >
        {options.map(([each, name]) => (
          <MenuItem key={each} {...(each === value ? { icon: Check } : {})} onSelect={() => onChange(each)}>
            {name}
          </MenuItem>
        ))}
      </Menu>
      {value === "" ? null : (
        <button
          type="button"
          className="filter-clear"
          aria-label={texts.common.clear(label)}
          onClick={() => onChange("")}
        >
          <X />
        </button>
      )}
    </span>
  );
}
