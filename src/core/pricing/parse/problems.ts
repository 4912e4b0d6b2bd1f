import { excerpt } from "../excerpt.ts";
import type { PricingProblem } from "../model.ts";
import type { TreeMap, TreeValue } from "./tree.ts";
import { positions } from "./yaml.ts";

/** How many problems one answer lists; the rest would help nobody and cost memory. */
const MAX_PROBLEMS = 1_000;
const MAX_MESSAGE_LENGTH = 4_000;
const MAX_PATH_LENGTH = 1_000;
/** How many characters all messages and paths of one answer may have. */
const MAX_LISTED_LENGTH = 256 * 1024;

interface Found {
  readonly rank: number;
  readonly problem: Omit<PricingProblem, "line" | "column">;
  readonly at: number;
}

/** Gathers what is wrong with one document. The order of the calls is the order of the answer, within each rank. */
export class Problems {
  readonly #found: Found[] = [];
  readonly #paths = new Set<string>();
  #length = 0;

  get none(): boolean {
    return this.#found.length === 0;
  }

  /**
   * Adds a problem unless one with the same path is there already: what follows from a first problem is not a second.
   * `rank` orders the checks of the reference: 0 its parser, 1 the illegal keys, 2 its storage.
   */
  add(kind: PricingProblem["kind"], message: string, path: string, at: number, rank: 0 | 1 | 2 = 0): void {
    if (this.#found.length >= MAX_PROBLEMS || this.#length >= MAX_LISTED_LENGTH) return;
    const shortPath = excerpt(path, MAX_PATH_LENGTH);
    // Paths that are cut may be alike; where they stand tells them apart.
    const place = `${kind === "key" ? "key " : ""}${shortPath}${shortPath.length > MAX_PATH_LENGTH ? `@${at}` : ""}`;
    if (this.#paths.has(place)) return;
    this.#paths.add(place);
    const problem = { kind, message: excerpt(message, MAX_MESSAGE_LENGTH), path: shortPath };
    this.#length += problem.message.length + problem.path.length;
    this.#found.push({ rank, problem, at });
  }

  /** The problems in the order in which the reference would meet them, each with its line and column in `source`. */
  list(source: string): PricingProblem[] {
    const locate = positions(source);
    return this.#found
      .toSorted((one, other) => one.rank - other.rank)
      .map(({ problem, at }) => Object.assign(problem, locate(at)));
  }
}

/** A mapping under examination: knows where it stands and how complaints about it begin. */
export class Section {
  readonly map: TreeMap;
  readonly path: string;
  /** Offset of the key that holds this mapping: where to point when something is missing in it. */
  readonly at: number;
  readonly #prefix: string;
  readonly #problems: Problems;

  constructor(problems: Problems, map: TreeMap, path: string, at: number, prefix: string) {
    this.#problems = problems;
    this.map = map;
    // Every problem below repeats both: a name of a megabyte must not come a thousand times.
    this.path = path.length > MAX_PATH_LENGTH ? excerpt(path, MAX_PATH_LENGTH) : path;
    this.at = at;
    this.#prefix = prefix.length > MAX_MESSAGE_LENGTH ? excerpt(prefix, MAX_MESSAGE_LENGTH) : prefix;
  }

  /** The value under `key`; null when absent. */
  value(key: string): TreeValue {
    return this.map.entries.get(key)?.value ?? null;
  }

  pathOf(key: string): string {
    return this.path === "" ? key : `${this.path}.${key}`;
  }

  /** Reports `message` at `key` (a path of keys joined by dots is placed at its first key). */
  fail(key: string, message: string, rank: 0 | 2 = 0): void {
    const entry = this.map.entries.get(key);
    this.failAt(key, entry?.at ?? this.at, message, rank);
  }

  /** Reports `message` at an offset of its own, below this mapping. */
  failAt(key: string, at: number, message: string, rank: 0 | 2 = 0): void {
    this.#problems.add("pricing", this.#prefix + message, key === "" ? this.path : this.pathOf(key), at, rank);
  }

  /** A mapping below this one, whose complaints begin with `prefix` after ours. */
  below(map: TreeMap, key: string, at: number, prefix = ""): Section {
    return new Section(this.#problems, map, this.pathOf(key), at, this.#prefix + prefix);
  }
}
