import { account, register, signIn } from "./texts/account.ts";
import { change, compare, decisions, gate } from "./texts/change.ts";
import { access, asOf, contract, contracts, novation } from "./texts/contracts.ts";
import { analytics, audit, cache, denials, health, overview } from "./texts/overview.ts";
import { keys, members, organizations, users } from "./texts/people.ts";
import { pricePage, pricing, services, unlock, upload } from "./texts/pricing.ts";
import { events, playground, tokens, webhooks } from "./texts/tools.ts";
import { common, design, entrance, errors, palette, shell } from "./texts/shell.ts";

/** All English texts of the console; a translation is another object of this shape. */
export const texts = {
  shell,
  palette,
  design,
  entrance,
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
  access,
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
