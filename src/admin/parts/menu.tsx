import * as Dropdown from "@radix-ui/react-dropdown-menu";
import type { ReactNode } from "react";

/** A button that opens a menu, with arrow keys, type-ahead and Escape. */
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

export function MenuItem({ onSelect, children }: { onSelect: () => void; children: ReactNode }) {
  return (
    <Dropdown.Item className="menu-item" onSelect={onSelect}>
      {children}
    </Dropdown.Item>
  );
}
