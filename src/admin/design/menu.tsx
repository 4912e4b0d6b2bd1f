import { Ellipsis, type LucideIcon } from "lucide-react";
import { lazy, Suspense, useContext, useState, type ReactNode } from "react";
import { type MenuParts, MenuPartsContext, type MenuProps } from "./menu-parts.ts";

const load = () => import("./open-menu.tsx");
const OpenMenu = lazy(async () => ({ default: (await load()).OpenMenu }));

function useParts(): MenuParts {
  const parts = useContext(MenuPartsContext);
  if (parts === undefined) throw new Error("no menu around this entry");
  return parts;
}

/** A button that opens a menu, with arrow keys, type-ahead and Escape. A trigger with text names itself. */
export function Menu(props: MenuProps) {
  const [openedBy, setOpenedBy] = useState<"pointer" | "keyboard">();
  const button = (
    <button
      type="button"
      className={props.className ?? "b"}
      aria-label={props.hasText === true ? undefined : props.label}
      aria-haspopup="menu"
      aria-expanded={false}
      onPointerEnter={() => void load()}
      onFocus={() => void load()}
      // Enter and Space click without a count.
      onClick={({ detail }) => setOpenedBy(detail === 0 ? "keyboard" : "pointer")}
      onKeyDown={({ key }) => {
        if (key === "ArrowDown") setOpenedBy("keyboard");
      }}
    >
      {props.trigger}
    </button>
  );
  if (openedBy === undefined) return button;
  return (
    <Suspense fallback={button}>
      <OpenMenu {...props} isByKeyboard={openedBy === "keyboard"} />
    </Suspense>
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
  const { Item } = useParts();
  const Icon = props.icon;
  return (
    <Item
      className={props.isBad === true ? "menu-item bad" : "menu-item"}
      disabled={props.isDisabled === true}
      onSelect={props.onSelect}
    >
      {Icon === undefined ? null : <Icon />}
      {props.children}
    </Item>
  );
}

export function MenuLine() {
  const { Separator } = useParts();
  return <Separator className="menu-line" />;
}

/** A choice inside a menu; the menu stays open. */
export function MenuChoice<T extends string>(props: {
  label: string;
  value: T;
  onChange: (value: T) => void;
  options: readonly (readonly [value: T, label: string])[];
}) {
  const { RadioGroup, RadioItem } = useParts();
  return (
    <RadioGroup
      className="seg"
      aria-label={props.label}
      value={props.value}
      onValueChange={(next) => {
        const chosen = props.options.find(([value]) => value === next);
        if (chosen !== undefined) props.onChange(chosen[0]);
      }}
    >
      {props.options.map(([value, label]) => (
        <RadioItem key={value} value={value} onSelect={(event) => event.preventDefault()}>
          {label}
        </RadioItem>
      ))}
    </RadioGroup>
  );
}
