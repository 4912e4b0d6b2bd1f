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

/** Verifies each token with a verifier of its own; see runOn. Returns the reason, or "ok". */
export function run(cases: readonly VerifierCase[]): Promise<string[]> {
  return Promise.all(
    cases.map(async ({ token, now, ...options }) => {
      const verifier = createTokenVerifier({ ...options, now: now === undefined ? undefined : () => now });
      const verdict = await verifier.verify(token);
      return verdict.ok ? "ok" : verdict.reason;
    }),
  );
}
