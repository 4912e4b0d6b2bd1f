import { excerpt } from "../excerpt.ts";
import type { PricingProblem } from "../model.ts";
import type { TreeMap, TreeValue } from "./tree.ts";
import { positions } from "./yaml.ts";

/** Maximum problems per response. More would not help the user and cost memory. */
const MAX_PROBLEMS = 1_000;
const MAX_MESSAGE_LENGTH = 4_000;
const MAX_PATH_LENGTH = 1_000;
const MAX_ADVICE_LENGTH = 1_000;
/** Maximum total characters of all messages and paths in one response. */
const MAX_LISTED_LENGTH = 256 * 1024;

interface Found {
  readonly rank: number;
  readonly problem: Omit<PricingProblem, "line" | "column">;
  readonly at: number;
}

/** Collects the problems of one document. Within each rank, the order of calls is the order of the response. */
export class Problems {
  private readonly found: Found[] = [];
  private readonly paths = new Set<string>();
  private length = 0;

  get none(): boolean {
    return this.found.length === 0;
  }

  /**
   * Adds a problem unless one with the same path exists, because it would be a consequence of the first. `rank` follows
   * the order of checks in the reference implementation: 0 parser, 1 illegal keys, 2 storage.
   */
  add(
    kind: PricingProblem["kind"],
    message: string,
    path: string,
    at: number,
    rank: 0 | 1 | 2 = 0,
    advice?: string,
  ): void {
    if (this.found.length >= MAX_PROBLEMS || this.length >= MAX_LISTED_LENGTH) return;
    const shortPath = excerpt(path, MAX_PATH_LENGTH);
    // Truncated paths may be equal; the offset distinguishes them.
    const place = `${kind === "key" ? "key " : ""}${shortPath}${shortPath.length > MAX_PATH_LENGTH ? `@${at}` : ""}`;
    if (this.paths.has(place)) return;
    this.paths.add(place);
    const problem = {
      kind,
      message: excerpt(message, MAX_MESSAGE_LENGTH),
      path: shortPath,
      ...(advice === undefined ? {} : { advice: excerpt(advice, MAX_ADVICE_LENGTH) }),
    };
    this.length += problem.message.length + problem.path.length + (advice?.length ?? 0);
    this.found.push({ rank, problem, at });
  }

  /**
   * Returns the problems in the order in which the reference implementation checks, with line and column in `source`.
   */
  list(source: string): PricingProblem[] {
    const locate = positions(source);
    return this.found
      .toSorted((one, other) => one.rank - other.rank)
      .map(({ problem, at }) => Object.assign(problem, locate(at)));
  }
}

/** A mapping that is being read, with its path and the prefix of its messages. */
export class Section {
  readonly map: TreeMap;
  readonly path: string;
  /** Offset of the key that holds this mapping. Reports of missing fields point here. */
  readonly at: number;
  private readonly prefix: string;
  private readonly problems: Problems;

  constructor(problems: Problems, map: TreeMap, path: string, at: number, prefix: string) {
    this.problems = problems;
    this.map = map;
    // Truncate, because every problem below repeats both: a name of 1 MB could otherwise appear 1,000 times.
    this.path = path.length > MAX_PATH_LENGTH ? excerpt(path, MAX_PATH_LENGTH) : path;
    this.at = at;
    this.prefix = prefix.length > MAX_MESSAGE_LENGTH ? excerpt(prefix, MAX_MESSAGE_LENGTH) : prefix;
  }

  value(key: string): TreeValue {
    return this.map.entries.get(key)?.value ?? null;
  }

  pathOf(key: string): string {
    return this.path === "" ? key : `${this.path}.${key}`;
  }

  /** Reports `message` at `key`. A dotted path points to its first key. */
  fail(key: string, message: string, rank: 0 | 2 = 0): void {
    const entry = this.map.entries.get(key);
    this.failAt(key, entry?.at ?? this.at, message, rank);
  }

  /** Reports `message` at an explicit offset below this mapping. */
  failAt(key: string, at: number, message: string, rank: 0 | 2 = 0): void {
    this.problems.add("pricing", this.prefix + message, key === "" ? this.path : this.pathOf(key), at, rank);
  }

  /** Creates the section of a nested mapping. Its messages start with this section's prefix, followed by `prefix`. */
  below(map: TreeMap, key: string, at: number, prefix = ""): Section {
    return new Section(this.problems, map, this.pathOf(key), at, this.prefix + prefix);
  }
}
