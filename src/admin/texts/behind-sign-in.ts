import { billing } from "./billing.ts";
import { credits } from "./credits.ts";
import { change, compare, decisions, gate, replay } from "./change.ts";
import { access, asOf, contract, contracts, holds, novation, terms, upcoming } from "./contracts.ts";
import { analytics, audit, cache, denials, health, overview } from "./overview.ts";
import { pricePage, pricing, services, unlock, upload } from "./pricing.ts";
import { budgets, team } from "./team.ts";
import { alerts, events, playground, tokens, webhooks } from "./tools.ts";
import { localEvaluation, usage } from "./usage.ts";

/** English texts of pages behind the sign-in. */
export const behindSignIn = {
  billing,
  budgets,
  credits,
  change,
  compare,
  decisions,
  gate,
  replay,
  access,
  asOf,
  contract,
  contracts,
  holds,
  novation,
  terms,
  upcoming,
  analytics,
  audit,
  cache,
  denials,
  health,
  overview,
  pricePage,
  pricing,
  services,
  team,
  unlock,
  upload,
  alerts,
  events,
  playground,
  tokens,
  webhooks,
  localEvaluation,
  usage,
};
