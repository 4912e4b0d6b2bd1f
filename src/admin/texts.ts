import { account, register, sessions, signIn } from "./texts/account.ts";
import { approvals, invitations, recovery } from "./texts/approvals.ts";
import type { behindSignIn } from "./texts/behind-sign-in.ts";
import { keys, members, organizations, users } from "./texts/people.ts";
import { common, design, docs, entrance, errors, palette, shell } from "./texts/shell.ts";

const atSignIn = {
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
  keys,
  members,
  invitations,
  recovery,
  approvals,
  organizations,
  users,
};

/**
 * Texts of the console. English ones, until `applyLanguage` has replaced them. Those of pages behind the sign-in are there once
 * `completeTexts` is done, which keeps them out of what a visitor loads.
 */
export const texts = atSignIn as typeof atSignIn & typeof behindSignIn;

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
