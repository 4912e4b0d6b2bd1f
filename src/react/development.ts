/** Available wherever React is: bundlers replace `process.env.NODE_ENV`, and React itself reads it. */
declare const process: { env: { NODE_ENV?: string } };

/** False in production builds, from which what it guards then disappears. */
// oxlint-disable-next-line no-restricted-globals -- replaced by bundlers
export const IS_DEVELOPMENT: boolean = process.env.NODE_ENV !== "production";

const shown = new Set<string>();

/** Prints a hint for developers, once per text. Call it only if IS_DEVELOPMENT. */
export function warnOnce(text: string): void {
  if (shown.has(text)) return;
  shown.add(text);
  console.warn(`faregate: ${text}`);
}
