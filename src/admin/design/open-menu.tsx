import * as Dropdown from "@radix-ui/react-dropdown-menu";
import { useEffect, useRef } from "react";
import { type MenuParts, MenuPartsContext, type MenuProps } from "./menu-parts.ts";

const PARTS: MenuParts = {
  Item: Dropdown.Item,
  Separator: Dropdown.Separator,
  RadioGroup: Dropdown.RadioGroup,
  RadioItem: Dropdown.RadioItem,
};

/** The menu itself, open from the start: only a menu that is asked for loads this file. */
export function OpenMenu({
  label,
  trigger,
  hasText,
  className,
  isByKeyboard,
  children,
}: MenuProps & { isByKeyboard: boolean }) {
  const content = useRef<HTMLDivElement>(null);
  // The library only knows how it was opened from the second time on.
  useEffect(() => {
    if (!isByKeyboard) return undefined;
    const frame = requestAnimationFrame(() => content.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus());
    return () => cancelAnimationFrame(frame);
  }, [isByKeyboard]);
  return (
    <Dropdown.Root modal={false} defaultOpen>
      <Dropdown.Trigger className={className ?? "b"} aria-label={hasText === true ? undefined : label}>
        {trigger}
      </Dropdown.Trigger>
      <Dropdown.Portal>
        <Dropdown.Content ref={content} className="menu" align="start" sideOffset={4} aria-label={label}>
          <MenuPartsContext.Provider value={PARTS}>{children}</MenuPartsContext.Provider>
        </Dropdown.Content>
      </Dropdown.Portal>
    </Dropdown.Root>
  );
}
