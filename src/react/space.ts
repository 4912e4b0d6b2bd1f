"use client";

/**
 * `faregate/react/space`: `faregate/react`, which has the names of the published `space-react-client` for the same things, too.
 * To migrate, replace the package's name in the imports; then rename at leisure. What differs, and is meant to:
 *
 * - `evaluateFeature` and `getKey` answer null where they answered false or undefined for want of a token or an entry.
 * - `limit` and `used` of a feature are a number or null against Faregate, and maps by usage limit against the reference server;
 *   `useUsage` reads both.
 * - A Feature without a token shows Loading while one is on its way, and ErrorFallback as soon as the token expires.
 * - Features of one user are gone at once when another is set; payloads are frozen; feature ids keep their case.
 * - `pricing_activated` works, and `pricing_actived` still does.
 */
export * from "./react.ts";
