import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";

/*
 * Comments are written for strangers. This test checks the part of the rule that a machine can check; its message shows
 * the rule.
 */

const ROOT = resolve(import.meta.dirname, "..");
const MAX_WORDS = 20;
const RULE = "Name the actor, use the verb of the trade, stop.";

const RULES: readonly { rule: string; breaks: (comment: string) => boolean }[] = [
  {
    rule: "begin with the subject, not with What, Whether, Who or The same",
    breaks: (comment) => /^(What|Whether|Who|Whoever|The same)\b/.test(comment),
  },
  { rule: 'write "Default: 3,000", not "absent: …"', breaks: (comment) => /\babsent:/.test(comment) },
  { rule: 'write "per minute and address", not "a minute and"', breaks: (comment) => /\ba minute and\b/.test(comment) },
  {
    rule: `end the first sentence after ${MAX_WORDS} words at most`,
    breaks: (comment) => (/^.*?[.:;!?](?=\s|$)/.exec(comment)?.[0] ?? comment).split(" ").length > MAX_WORDS,
  },
];

interface Comment {
  line: number;
  text: string;
}

/** Block comments, and runs of line comments as one. */
function commentsOf(source: string): Comment[] {
  const blocks = [...source.matchAll(/\/\*\*?([\s\S]*?)\*\//g)].map(({ index, 1: body = "" }) => ({
    line: source.slice(0, index).split("\n").length,
    text: body.replace(/^\s*\* ?/gm, " "),
  }));
  const runs: (Comment & { last: number })[] = [];
  for (const [index, text] of source.split("\n").entries()) {
    const body = /^\s*\/\/ ?(?!oxlint|@ts)(.*)$/.exec(text)?.[1];
    if (body === undefined) continue;
    const run = runs.at(-1);
    if (run?.last === index - 1) {
      run.text += ` ${body}`;
      run.last = index;
    } else runs.push({ line: index + 1, last: index, text: body });
  }
  return [...blocks, ...runs].map(({ line, text }) => ({ line, text: text.replace(/\s+/g, " ").trim() }));
}

const files = ["src", "test", ".package"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => `${folder}/${file}`),
);
const comments = files.flatMap((file) =>
  commentsOf(readFileSync(join(ROOT, file), "utf8")).map((comment) => ({ file, ...comment })),
);

it("finds the comments of the project", () => {
  expect(comments.length).toBeGreaterThan(2000);
});

it.each(RULES)("comments follow the rule: $rule", ({ rule, breaks }) => {
  const found = comments
    .filter(({ text }) => breaks(text))
    .map(({ file, line, text }) => `${file}:${line} ${text.slice(0, 120)}`);
  expect(found, `${RULE} Here: ${rule}.`).toEqual([]);
});
