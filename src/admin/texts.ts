import { account, register, sessions, signIn } from "./texts/account.ts";
import { approvals, invitations, recovery } from "./texts/approvals.ts";
import { billing } from "./texts/billing.ts";
import { credits } from "./texts/credits.ts";
import { change, compare, decisions, gate, replay } from "./texts/change.ts";
import { access, asOf, contract, contracts, holds, novation, terms, upcoming } from "./texts/contracts.ts";
import { analytics, audit, cache, denials, health, overview } from "./texts/overview.ts";
import { keys, members, organizations, users } from "./texts/people.ts";
import { pricePage, pricing, services, unlock, upload } from "./texts/pricing.ts";
import { alerts, events, playground, tokens, webhooks } from "./texts/tools.ts";
import { common, design, docs, entrance, errors, palette, shell } from "./texts/shell.ts";
import { localEvaluation, usage } from "./texts/usage.ts";

/** Texts of the console. English ones, until `applyLanguage` has replaced them. */
export const texts = {
  shell,
  palette,
  design,
  docs,
  entrance,
  common,
  errors,
  signIn,
  register,
  account,
  sessions,
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
  terms,
  upcoming,
  holds,
  credits,
  billing,
  keys,
  members,
  invitations,
  recovery,
  approvals,
  organizations,
  users,
  overview,
  denials,
  analytics,
  cache,
  health,
  audit,
  replay,
  compare,
  change,
  decisions,
  gate,
  playground,
  tokens,
  events,
  alerts,
  webhooks,
  usage,
  localEvaluation,
};

/** Any text in place of each English one. */
type Translated<T> = T extends string
  ? string
  : T extends (...given: infer Given) => string
    ? (...given: Given) => string
    : T extends readonly (infer Item)[]
      ? readonly Translated<Item>[]
      : { readonly [Name in keyof T]: Translated<T[Name]> };

/** A whole translation: one file in texts/. */
export type Texts = Translated<typeof texts>;
