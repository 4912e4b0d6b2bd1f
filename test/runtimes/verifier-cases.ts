import { createTokenVerifier } from "../../src/client/verify.ts";

/** A token, and the options of the verifier that checks it. */
export interface VerifierCase {
  token: unknown;
  organizationId: string;
  jwksUrl?: string;
  jwks?: { keys: readonly object[] };
  issuer?: string;
  /** Milliseconds since 1970. Default: the clock of the runtime. */
  now?: number;
}

/**
 * Verifies each token with a verifier of its own; see runOn. Returns the reason, or "ok". One after the other, so that each has the
 * five seconds of a request to itself. Why a request failed follows the reason.
 */
export async function run(cases: readonly VerifierCase[]): Promise<string[]> {
  const send = globalThis.fetch;
  let cause = "";
  globalThis.fetch = (...given) =>
    send(...given).catch((error: unknown) => {
      cause = ` (${String(error)})`;
      throw error;
    });
  const reasons: string[] = [];
  for (const { token, now, ...options } of cases) {
    const verifier = createTokenVerifier({ ...options, now: now === undefined ? undefined : () => now });
    cause = "";
    const verdict = await verifier.verify(token);
    reasons.push(verdict.ok ? "ok" : verdict.reason + cause);
  }
  return reasons;
}
