import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import ts from "typescript5";
import { expect, test } from "vitest";
import { errorLinks } from "../../src/http/error-links.ts";
import { openApiDocument } from "../../src/http/openapi.ts";
import { errorsPage } from "../../src/http/routes/errors-page.ts";
import { anchorOf, ERRORS } from "../../src/wire/errors/catalogue.ts";
import { ANSWER_CODES } from "../../src/wire/errors/codes.ts";
import type { ErrorKind } from "../../src/wire/errors/entry.ts";
import { OPERATIONS } from "../../src/wire/operations.ts";
import { CATALOGUED, type ErrorCode, KINDS } from "../support/error-catalogue.ts";

const SOURCE = resolve(import.meta.dirname, "../../src");
const GUIDE = resolve(SOURCE, "docs/errors.md");

/** A sentence of the source, with ¤ for each value in it. The code is undefined where the source names none beside it. */
interface Sentence {
  code: ErrorCode | undefined;
  text: string;
  place: string;
}

/** Ends of a message: a literal, the branches of a condition, a constant of the same file. */
function literals(node: ts.Node, constants: ReadonlyMap<string, ts.Expression>): string[] {
  if (ts.isStringLiteralLike(node)) return [node.text];
  if (ts.isTemplateExpression(node))
    return node.templateSpans.reduce(
      (texts, { expression, literal }) => {
        const inner = ts.isConditionalExpression(expression) ? literals(expression, constants) : ["¤"];
        return texts.flatMap((text) => inner.map((each) => text + each + literal.text));
      },
      [node.head.text],
    );
  if (ts.isConditionalExpression(node))
    return [node.whenTrue, node.whenFalse].flatMap((each) => literals(each, constants));
  if (ts.isBinaryExpression(node)) return [node.left, node.right].flatMap((each) => literals(each, constants));
  if (ts.isIdentifier(node)) {
    const value = constants.get(node.text);
    return value === undefined ? [] : literals(value, constants);
  }
  return [];
}

/** Every message of a Failure, and every text that begins as messages do or stands in a schema's check. */
function sentencesOf(file: string): Sentence[] {
  const tree = ts.createSourceFile(file, readFileSync(resolve(SOURCE, file), "utf8"), ts.ScriptTarget.ESNext, true);
  const constants = new Map<string, ts.Expression>();
  const found: Sentence[] = [];
  const add = (code: ErrorCode | undefined, texts: readonly string[]) =>
    found.push(...texts.map((text) => ({ code, text, place: file })));
  const collect = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer !== undefined)
      constants.set(node.name.text, node.initializer);
    node.forEachChild(collect);
  };
  collect(tree);
  const visit = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && node.expression.getText() === "Failure") {
      const [code, message] = node.arguments ?? [];
      if (code !== undefined && message !== undefined)
        add(ts.isStringLiteral(code) ? (code.text as ErrorCode) : undefined, literals(message, constants));
    } else if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      const texts = literals(node, constants);
      const isMessage = texts.some((text) => /^(INVALID DATA|PERMISSION ERROR|CONFLICT|NOT FOUND): /.test(text));
      const isExample = file.startsWith("wire/errors/") || isDocumented(node);
      const isCheck = file.startsWith("wire/") && texts.some((text) => CHECK.test(text));
      if ((isMessage || isCheck) && !isExample) add(undefined, texts);
    }
    node.forEachChild(visit);
  };
  visit(tree);
  return found;
}

const CHECK =
  / (is required|needs either|must be|must have|must not|cannot be empty|contains characters|field must)\b|^Unknown /;

/** True for texts that describe the interface: descriptions, examples, and a row's own errors. */
function isDocumented(node: ts.Node): boolean {
  for (let at = node; at !== undefined; at = at.parent) {
    if (ts.isCallExpression(at) && /\.describe$|^describe$|^flag$/.test(at.expression.getText())) {
      if (at.arguments.some((each) => each.pos <= node.pos && node.end <= each.end)) return true;
    }
    if (
      ts.isPropertyAssignment(at) &&
      /^(description|summary|errors|example|answers|\d+)$/.test(at.name.getText().replaceAll('"', ""))
    )
      return true;
  }
  return false;
}

const files = readdirSync(SOURCE, { recursive: true })
  .map(String)
  .filter((file) => /^(core\/access|core\/ofrep|operations|http|wire|entries\/platform)\b.*\.ts$/.test(file));
const sentences = files.flatMap(sentencesOf);

/** A sentence of which the catalogue shows no word proves nothing. */
const isTelling = ({ sentence }: { sentence: string }) => /[A-Za-z]{4}/.test(sentence.replace(/\{\w+\}/g, ""));

/** Sentences of a protocol or a page of their own, which the catalogue explains by their codes. */
const ELSEWHERE = ["wire/ofrep.ts", "wire/errors/codes.ts"];
/** Parts of other sentences. */
const PARTS = [/^CONFLICT: (Lease|Hold) ¤ ¤/, /^INVALID DATA: ¤$/, /^¤: ¤$/, /^Errors where found/];

test("the catalogue has every sentence of the source under its code", () => {
  expect(sentences.length).toBeGreaterThan(250);
  const missing = sentences.filter(({ code, text, place }) => {
    if (ELSEWHERE.includes(place) || PARTS.some((part) => part.test(text)) || text === "¤") return false;
    return !CATALOGUED.some((each) => (code ?? each.code) === each.code && isTelling(each) && each.pattern.test(text));
  });
  expect([...new Set(missing.map(({ code, text, place }) => `${place}: ${code ?? "?"}: ${text}`))]).toEqual([]);
});

test("the catalogue has no sentence that nothing answers", () => {
  const texts = files
    .concat([
      "core/webhooks.ts",
      "core/pricing/subscription.ts",
      "core/pricing/overrides.ts",
      "core/pricing/parse/legal-key.ts",
      "core/change/review.ts",
      "core/change/expectations/expectations.ts",
    ])
    .filter((file) => !file.startsWith("wire/errors/"))
    .map((file) => readFileSync(resolve(SOURCE, file), "utf8"))
    .join("\n");
  const unused = CATALOGUED.filter(({ sentence, pattern }) => {
    if (sentences.some(({ text }) => pattern.test(text))) return false;
    const pieces = sentence
      .split(/\{\w+\}/)
      .map((piece) => piece.replace(/^.*?: *$/, "").replace(/^[ :.]+|[ :.]+$/g, ""))
      .filter((piece) => piece.length > 3);
    return !pieces.every((piece) => texts.includes(piece) || texts.includes(piece.replace(/^.*?: /, "")));
  });
  expect(unused.map(({ code, sentence }) => `${code}: ${sentence}`)).toEqual([]);
});

test("the API reference shows errors that the catalogue has, with their statuses", () => {
  const { components } = openApiDocument("") as {
    components: { responses: Record<string, { content: { "application/json": { example: { error: string } } } }> };
  };
  const shared = Object.entries(components.responses).map(
    ([name, { content }]) => [name, undefined, content["application/json"].example.error] as const,
  );
  const own = OPERATIONS.filter(({ failure }) => failure === undefined).flatMap(({ id, errors = {} }) =>
    Object.entries(errors).map(([status, sentence]) => [id, Number(status), sentence] as const),
  );
  expect(own.length).toBeGreaterThan(100);
  const unknown = [...shared, ...own].filter(
    ([, status, sentence]) =>
      !CATALOGUED.some(
        (each) =>
          (status ?? ERRORS[each.code].status) === ERRORS[each.code].status &&
          isTelling(each) &&
          each.pattern.test(sentence),
      ),
  );
  expect(unknown.map((each) => each.join(" "))).toEqual([]);
});

test("no sentence stands twice in a kind", () => {
  const keys = CATALOGUED.map(({ code, sentence }) => `${code}: ${sentence}`);
  expect(keys.filter((key, place) => keys.indexOf(key) !== place)).toEqual([]);
});

test("each kind has a link of its own, below the sub-path, to an anchor of the page", () => {
  const links = errorLinks("/space/api/v1");
  expect(links.notFound).toBe('</space/api/v1/docs/errors#not-found>; rel="help"');
  expect(new Set(Object.values(links)).size).toBe(KINDS.length);
  for (const link of Object.values(links)) expect(errorsPage()).toContain(`id="${/#([\w-]+)>/.exec(link)?.[1]}"`);
});

const sectionOf = (kind: ErrorKind) =>
  [
    `## ${kind.title}`,
    `${kind.status}. ${kind.meaning} **${kind.remedy}**`,
    ...kind.groups.map(({ remedy, sentences: all }) =>
      [`${remedy}\n`, ...all.map((each) => `- \`${each}\``)].join("\n"),
    ),
  ].join("\n\n") + "\n";

test("the guide has the catalogue, as `npx vitest -u` writes it", async () => {
  const head = readFileSync(GUIDE, "utf8").split(/(?=^## )/m)[0] ?? "";
  const codes = Object.entries(ANSWER_CODES).map(([code, remedy]) => `| \`${code}\` | ${remedy} |`);
  const guide = [
    head.trimEnd() + "\n",
    ...KINDS.map(([, kind]) => sectionOf(kind)),
    `## Codes in answers\n\nAn answer 200 about a feature or an item of usage can contain one of these codes.\n\n| code | remedy |\n|---|---|\n${codes.join("\n")}\n`,
  ].join("\n");
  await expect(guide).toMatchFileSnapshot(GUIDE);
});

test("anchors of the guide and of the page are the same", () => {
  const headings = [...readFileSync(GUIDE, "utf8").matchAll(/^## (.+)$/gm)].map(([, text = ""]) =>
    text.toLowerCase().replaceAll(" ", "-"),
  );
  for (const [, kind] of KINDS) expect(headings).toContain(anchorOf(kind));
});
