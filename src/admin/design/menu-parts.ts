import type * as Dropdown from "@radix-ui/react-dropdown-menu";
import { createContext, type ReactNode } from "react";

export type MenuParts = Pick<typeof Dropdown, "Item" | "Separator" | "RadioGroup" | "RadioItem">;

/** Parts of the menu library, which loads with the first menu that is pointed at. */
export const MenuPartsContext = createContext<MenuParts | undefined>(undefined);

export interface MenuProps {
  label: string;
  trigger: ReactNode;
  hasText?: boolean;
  className?: string;
  children: ReactNode;
}
