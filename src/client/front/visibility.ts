/* A file of its own, because only code that is loaded later uses it. */

/** Returns true while the page is in the background. */
export function isHidden(): boolean {
  return typeof document === "object" && document.hidden;
}
