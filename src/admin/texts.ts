import { account, register, signIn } from "./texts/account.ts";
import { change, compare, decisions, gate } from "./texts/change.ts";
import { asOf, contract, contracts, novation } from "./texts/contracts.ts";
import { analytics, audit, cache, compatibility, denials, health, overview } from "./texts/overview.ts";
import { keys, members, organizations, users } from "./texts/people.ts";
import { pricePage, pricing, services, unlock, upload } from "./texts/pricing.ts";
import { events, playground, tokens, webhooks } from "./texts/tools.ts";
import { common, errors, shell } from "./texts/shell.ts";

/** All English texts of the console; a translation is another object of this shape. */
export const texts = {
  shell,
  common,
  errors,
  signIn,
  register,
  account,
  services,
  upload,
  pricing,
  pricePage,
  unlock,
  contracts,
  contract,
  novation,
  asOf,
  keys,
  members,
  organizations,
  users,
  overview,
  denials,
  analytics,
  cache,
  compatibility,
  health,
  audit,
  compare,
  change,
  decisions,
  gate,
  playground,
  tokens,
  events,
  webhooks,
};
