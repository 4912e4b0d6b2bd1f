import { ADAPTERS } from "../../src/core/billing/adapters.ts";
import type { BillingProvider } from "../../src/core/billing/message.ts";

/** A signed message, and what verifies it. */
export interface SignatureCase {
  provider: BillingProvider;
  body: string;
  headers: Record<string, string>;
  secrets: string[];
  /** Milliseconds since 1970. */
  now: number;
}

/** Verifies and reads each message; see runOn. Returns null where the signature is wrong. */
export function run(cases: readonly SignatureCase[]): Promise<unknown[]> {
  return Promise.all(
    cases.map(async ({ provider, body, headers, secrets, now }) => {
      const adapter = ADAPTERS[provider];
      const raw = { body: new TextEncoder().encode(body), header: (name: string) => headers[name] };
      return (await adapter.verify(raw, secrets, new Date(now))) ? adapter.read(raw, "metadata.userId") : null;
    }),
  );
}
