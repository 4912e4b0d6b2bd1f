/** Set by `npm run build:server`. Undefined where the sources run. */
declare const IS_BUILT: true | undefined;

/** Returns the module of a thread: the source, or the built file beside the server. */
export function threadModule(name: "analysis-thread" | "bcrypt-thread"): URL {
  return new URL(typeof IS_BUILT === "undefined" ? `${name}.mjs` : `${name}.js`, import.meta.url);
}
