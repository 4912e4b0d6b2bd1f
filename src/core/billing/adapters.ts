import type { BillingProvider, ProviderAdapter } from "./message.ts";
import { standard } from "./standard.ts";
import { stripe } from "./stripe.ts";

/** The adapter of each provider. */
export const ADAPTERS: Readonly<Record<BillingProvider, ProviderAdapter>> = { stripe, standard };
