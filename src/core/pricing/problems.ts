import type { PricingProblem } from "./model.ts";
import type { TreeMap, TreeValue } from "./tree.ts";
import { positions } from "./yaml.ts";

/** How many problems one answer lists; the rest would help nobody and cost memory. */
const MAX_PROBLEMS = 1_000;
const MAX_MESSAGE_LENGTH = 4_000;
const MAX_PATH_LENGTH = 1_000;

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

interface Found {
  readonly rank: number;
  readonly problem: Omit<PricingProblem, "line" | "column">;
  readonly at: number;
}

/** Gathers what is wrong with one document. The order of the calls is the order of the answer, within each rank. */
export class Problems {
  readonly #found: Found[] = [];
  readonly #paths = new Set<string>();

  get none(): boolean {
    return this.#found.length === 0;
  }

  /**
   * Adds a problem unless one with the same path is there already: what follows from a first problem is not a second.
   * `rank` orders the checks of the reference: 0 its parser, 1 the illegal keys, 2 its storage.
   */
  add(kind: PricingProblem["kind"], message: string, path: string, at: number, rank: 0 | 1 | 2 = 0): void {
    const place = kind === "key" ? `key ${path}` : path;
    if (this.#found.length >= MAX_PROBLEMS || this.#paths.has(place)) return;
    this.#paths.add(place);
    const problem = { kind, message: cut(message, MAX_MESSAGE_LENGTH), path: cut(path, MAX_PATH_LENGTH) };
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
    this.path = path;
    this.at = at;
    this.#prefix = prefix;
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
