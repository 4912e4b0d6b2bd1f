/* Apart from ambient.ts, because only code that is loaded later asks for it. */

/** Returns true while the page is in the background. */
export function isHidden(): boolean {
  return typeof document === "object" && document.hidden;
}
