import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./recorded-statements.ts";

/** A source file, its white space as single spaces, with a mark before each declaration of the module. */
interface Source {
  path: string;
  text: string;
}

const flat = (text: string) => text.replace(/\s+/g, " ").trim();
const marked = (text: string) =>
  flat(text.replace(/^(?:export )?(?:async )?(?:function|const|class) (\w+)/gm, "§$1 $&"));

const read = (folder: string): Source[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => ({ path: `${folder}/${name}`, text: marked(readFileSync(join(ROOT, folder, name), "utf8")) }));

const sources = [
  ...read("src/db"),
  ...read("src/operations"),
  ...read("src/events"),
  ...read("src/entries"),
  ...read("test"),
];

/** Words of a statement that must be found together: fewer are in many files. */
const MIN_WORDS = 4;

/** Sources by text that they have, for texts that many statements begin with. */
const known = new Map<string, readonly Source[]>();

function sourcesOf(text: string): readonly Source[] {
  const found = known.get(text) ?? sources.filter((source) => source.text.includes(text));
  known.set(text, found);
  return found;
}

/**
 * Returns the file and declaration that have the beginning of a statement's text. Undefined for statements that are built of
 * tables and columns, which no file has as text.
 */
export function placeOf(statement: string): string | undefined {
  const words = flat(statement).split(" ");
  const beginning = (count: number) => words.slice(0, count).join(" ");
  let found: readonly Source[] = [];
  let count = MIN_WORDS;
  for (; count <= words.length; count += 1) {
    const start = beginning(count);
    const longer = count === MIN_WORDS ? sourcesOf(start) : found.filter(({ text }) => text.includes(start));
    if (longer.length === 0) break;
    found = longer;
  }
  // Several files have a beginning that ends where a value is filled in. The rest of the text tells them apart.
  const rest = words.flatMap((_, at) => (at % MIN_WORDS === 0 ? [words.slice(at, at + MIN_WORDS).join(" ")] : []));
  const had = ({ text }: Source) => rest.filter((part) => text.includes(part)).length;
  const [source] = found.toSorted((one, other) => had(other) - had(one));
  if (source === undefined) return undefined;
  const before = source.text.slice(0, source.text.indexOf(beginning(count - 1)));
  return `${source.path} ${[...before.matchAll(/§(\w+)/g)].at(-1)?.[1] ?? ""}`.trim();
}

/** True if the sources have a function of this name in this file, as `placeOf` writes it. */
export function hasPlace(place: string): boolean {
  const [path, name = ""] = place.split(" ");
  return sources.some((source) => source.path === path && source.text.includes(`§${name}`));
}
