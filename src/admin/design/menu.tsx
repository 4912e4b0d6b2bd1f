import * as Dropdown from "@radix-ui/react-dropdown-menu";
import { Ellipsis, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

/** A button that opens a menu, with arrow keys, type-ahead and Escape. A trigger with text names itself. */
export function Menu(props: {
  label: string;
  trigger: ReactNode;
  hasText?: boolean;
  className?: string;
  children: ReactNode;
}) {
  return (
    <Dropdown.Root modal={false}>
      <Dropdown.Trigger
        className={props.className ?? "b"}
        aria-label={props.hasText === true ? undefined : props.label}
      >
        {props.trigger}
      </Dropdown.Trigger>
      <Dropdown.Portal>
        <Dropdown.Content className="menu" align="start" sideOffset={4} aria-label={props.label}>
          {props.children}
        </Dropdown.Content>
      </Dropdown.Portal>
    </Dropdown.Root>
  );
}

/** The menu of a page's or row's rarer actions. */
export function MoreMenu({ label, isSmall, children }: { label: string; isSmall?: boolean; children: ReactNode }) {
  return (
    <Menu label={label} trigger={<Ellipsis />} className={isSmall === true ? "b plain icon small" : "b icon"}>
      {children}
    </Menu>
  );
}

export function MenuItem(props: {
  onSelect: () => void;
  icon?: LucideIcon;
  isBad?: boolean;
  isDisabled?: boolean;
  children: ReactNode;
}) {
  const Icon = props.icon;
  return (
    <Dropdown.Item
      className={props.isBad === true ? "menu-item bad" : "menu-item"}
      disabled={props.isDisabled === true}
      onSelect={props.onSelect}
    >
      {Icon === undefined ? null : <Icon />}
      {props.children}
    </Dropdown.Item>
  );
}

export const MenuLine = () => <Dropdown.Separator className="menu-line" />;

/** A choice inside a menu; the menu stays open. */
export function MenuChoice<T extends string>(props: {
  label: string;
  value: T;
  onChange: (value: T) => void;
  options: readonly (readonly [value: T, label: string])[];
}) {
  return (
    <Dropdown.RadioGroup
      className="seg"
      aria-label={props.label}
      value={props.value}
      onValueChange={(next) => {
        const chosen = props.options.find(([value]) => value === next);
        if (chosen !== undefined) props.onChange(chosen[0]);
      }}
    >
      {props.options.map(([value, label]) => (
        <Dropdown.RadioItem key={value} value={value} onSelect={(event) => event.preventDefault()}>
          {label}
        </Dropdown.RadioItem>
      ))}
    </Dropdown.RadioGroup>
  );
}
