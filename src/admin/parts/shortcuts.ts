import { useEffect } from "react";
import { useNavigate } from "react-router";
import type { texts } from "../texts.ts";

/** True where ⌘ takes the place of Ctrl. */
export const IS_MAC = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** How long the second key of a jump may take. */
const JUMP_MS = 1000;

/** Second keys of the jumps that begin with G. */
export const JUMPS: Readonly<Partial<Record<keyof typeof texts.shell.pages, string>>> = {
  overview: "o",
  contracts: "c",
  services: "s",
  usage: "u",
  keys: "k",
  webhooks: "w",
};

/**
 * Listens for Ctrl K or ⌘ K (the command palette), / (the page's search), and G with a page's key. Keys typed into a
 * field or a dialog stay there.
 */
export function useShortcuts(openPalette: () => void, pages: readonly { name: string; to: string }[]): void {
  const go = useNavigate();
  useEffect(() => {
    let jumpsUntil = 0;
    const listener = (event: KeyboardEvent) => {
      const key = event.key.toLowerCase();
      const hasModifier = event.metaKey || event.ctrlKey || event.altKey;
      if (key === "k" && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        if (!isInDialog()) openPalette();
        return;
      }
      if (hasModifier || isTyping(event.target)) return;
      const search = document.querySelector<HTMLInputElement>("main input[type=search]");
      if (key === "/" && search !== null) {
        event.preventDefault();
        search.focus();
      }
      const page = pages.find(({ name }) => JUMPS[name as keyof typeof JUMPS] === key);
      if (event.timeStamp < jumpsUntil && page !== undefined) void go(page.to);
      jumpsUntil = key === "g" ? event.timeStamp + JUMP_MS : 0;
    };
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  });
}

/** True while a dialog is open, even if the focus is outside of it. */
const isInDialog = (): boolean => document.querySelector("dialog:modal") !== null;

const isTyping = (target: EventTarget | null): boolean =>
  isInDialog() || (target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null);
