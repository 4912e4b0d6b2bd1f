import { errorsPage } from "../../src/http/routes/errors-page.ts";
import { anchorOf, ERRORS } from "../../src/wire/errors/catalogue.ts";
import type { ErrorKind } from "../../src/wire/errors/entry.ts";

export type ErrorCode = keyof typeof ERRORS;
export const KINDS = Object.entries(ERRORS) as [ErrorCode, ErrorKind][];

const patternOf = (sentence: string) =>
  new RegExp(`^${sentence.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/\{\w+\}/g, "[^]*")}$`);

/** Every sentence of the catalogue, with a pattern in which anything or nothing stands for words in braces. */
export const CATALOGUED = KINDS.flatMap(([code, { groups }]) =>
  groups.flatMap((group) => group.sentences.map((sentence) => ({ code, sentence, pattern: patternOf(sentence) }))),
);

/**
 * Checks that an error leads to its kind in the catalogue, and that the catalogue has its sentence. OFREP has sentences and
 * statuses of its own.
 * @throws Error when it does not.
 */
export function expectCatalogued(where: string, answer: { status: number; headers: Headers; body: unknown }): void {
  const { status, headers, body } = answer;
  const link = headers.get("link") ?? "no link";
  const anchor = /^<[^>]*\/api\/v1\/docs\/errors#([\w-]+)>; rel="help"$/.exec(link)?.[1];
  const [code, kind] = KINDS.find(([, each]) => anchorOf(each) === anchor) ?? [];
  if (kind === undefined || !errorsPage().includes(`id="${anchor}"`)) throw new Error(`${where} leads to ${link}`);
  if (typeof body !== "object" || body === null || !("error" in body)) return;
  if (kind.status !== status) throw new Error(`${where} leads to ${link}`);
  const sentence = String(body.error);
  // A sentence that quotes so much is cut.
  if (sentence.length > 7_900) return;
  if (!CATALOGUED.some((each) => each.code === code && each.pattern.test(sentence)))
    throw new Error(`${where} with "${sentence}", which src/wire/errors has not under ${code}`);
}
