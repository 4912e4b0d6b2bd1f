import * as Dropdown from "@radix-ui/react-dropdown-menu";
import type { ReactNode } from "react";

/** A button that opens a list of choices; arrow keys, typing ahead and Escape work as in every menu. */
export function Menu({ label, trigger, children }: { label: string; trigger: ReactNode; children: ReactNode }) {
  return (
    <Dropdown.Root modal={false}>
      <Dropdown.Trigger className="button quiet" aria-label={label}>
        {trigger}
        <span aria-hidden="true">▾</span>
      </Dropdown.Trigger>
      <Dropdown.Portal>
        <Dropdown.Content className="menu" align="start" sideOffset={4} aria-label={label}>
          {children}
        </Dropdown.Content>
      </Dropdown.Portal>
    </Dropdown.Root>
  );
}

/** One choice of a menu. */
export function MenuItem({ onSelect, children }: { onSelect: () => void; children: ReactNode }) {
  return (
    <Dropdown.Item className="menu-item" onSelect={onSelect}>
      {children}
    </Dropdown.Item>
  );
}
