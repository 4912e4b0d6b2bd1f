declare const process: { env: { NODE_ENV?: string } };

const said = new Set<string>();

/** A hint for the developer, once per text; silent in production builds. */
export function warnOnce(text: string): void {
  if (said.has(text) || isProduction()) return;
  said.add(text);
  console.warn(`faregate: ${text}`);
}

/** Without a bundler there is no `process`; then nobody asked for development messages either. */
function isProduction(): boolean {
  try {
    // oxlint-disable-next-line no-restricted-globals -- replaced by bundlers
    return process.env.NODE_ENV === "production";
  } catch {
    return true;
  }
}
