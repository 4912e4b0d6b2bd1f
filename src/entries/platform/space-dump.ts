import { createHash } from "node:crypto";
import { createReadStream, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { BSON } from "bson";
import { COLLECTIONS, type Collection, type SpaceDocument } from "../../core/space/documents.ts";
import type { ReadCollection } from "../../core/space/plan.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { linesOf } from "./lines.ts";

/** A dump of SPACE's database. */
export interface SpaceDump {
  read: ReadCollection;
  /** SHA-256 of its files, in hex. */
  hash(): Promise<string>;
  /**
   * Reads every document once, so that a file that is torn or damaged is found before anything is written.
   * @throws StartupProblem
   */
  check(): Promise<void>;
}

/** Formats in the order in which they are preferred, if a folder has a collection twice. */
const ENDINGS = [".bson", ".bson.gz", ".json", ".json.gz"] as const;
const MAX_ARRAY_BYTES = 256 * 1024 * 1024;

/**
 * Opens a folder of mongodump or mongoexport. Its files are read as streams, when they are needed.
 * @throws StartupProblem for a folder that is no dump of SPACE 1.0 or later.
 */
export function openSpaceDump(folder: string): SpaceDump {
  const files = filesIn(folder);
  for (const required of ["users", "services"] as const) {
    if (!files.has(required)) throw new StartupProblem(`${folder} is no dump of SPACE: ${required} is missing`);
  }
  if (!files.has("organizations")) {
    throw new StartupProblem("This dump has no organizations: SPACE before 1.0 is not supported");
  }
  return {
    read: (collection) => documentsOf(files.get(collection)),
    check: async () => {
      for (const path of files.values()) for await (const _ of documentsOf(path));
    },
    hash: async () => {
      const hash = createHash("sha256");
      for (const [, path] of [...files].sort(([one], [other]) => (one < other ? -1 : 1))) {
        hash.update(`${basename(path)}\0`);
        for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
      }
      return hash.digest("hex");
    },
  };
}

/** Finds the file of each collection, in the folder or in its only subfolder. */
function filesIn(folder: string): Map<Collection, string> {
  const entries = list(folder);
  const direct = pick(folder, entries);
  const [subfolder, ...others] = entries.filter((name) => isFolder(join(folder, name)));
  if (direct.size > 0 || subfolder === undefined || others.length > 0) return direct;
  return pick(join(folder, subfolder), list(join(folder, subfolder)));
}

function pick(folder: string, names: readonly string[]): Map<Collection, string> {
  const found = new Map<Collection, string>();
  for (const collection of COLLECTIONS) {
    const ending = ENDINGS.find((each) => names.includes(collection + each));
    if (ending !== undefined) found.set(collection, join(folder, collection + ending));
  }
  return found;
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    throw new StartupProblem(`${folder} cannot be read: ${sentence(error)}`, { cause: error });
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

async function* documentsOf(path: string | undefined): AsyncGenerator<SpaceDocument> {
  if (path === undefined) return;
  try {
    const bytes = path.endsWith(".gz") ? unzipped(path) : createReadStream(path);
    for await (const document of path.includes(".bson") ? fromBson(bytes) : fromJson(bytes)) {
      yield plain(document) as SpaceDocument;
    }
  } catch (error) {
    throw new StartupProblem(`${path} cannot be read: ${sentence(error)}`, { cause: error });
  }
}

function unzipped(path: string): Readable {
  const file = createReadStream(path);
  const unzip = createGunzip();
  // `pipe` forwards no errors.
  file.on("error", (error) => unzip.destroy(error));
  return file.pipe(unzip);
}

const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Reads concatenated documents, each of which begins with its length. */
async function* fromBson(chunks: Readable): AsyncGenerator<object> {
  let rest = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk as Buffer]);
    let at = 0;
    while (rest.length - at >= 4) {
      const length = rest.readInt32LE(at);
      if (length < 5) throw new Error("it is no BSON");
      if (rest.length - at < length) break;
      yield BSON.deserialize(rest.subarray(at, at + length));
      at += length;
    }
    rest = rest.subarray(at);
  }
  if (rest.length > 0) throw new Error("it ends in the middle of a document");
}

/** Reads one document per line, or one list of documents. */
async function* fromJson(bytes: Readable): AsyncGenerator<object> {
  let list: string[] | undefined;
  let length = 0;
  let isFirst = true;
  let number = 0;
  for await (const line of linesOf(bytes)) {
    number += 1;
    const text = isFirst ? line.replace(/^\uFEFF/, "") : line;
    if (text.trim() === "" && list === undefined) continue;
    if (isFirst && text.trimStart().startsWith("[")) list = [];
    isFirst = false;
    if (list === undefined) yield parse(text, `line ${number}`);
    else {
      length += text.length;
      if (length > MAX_ARRAY_BYTES) throw new Error("a list of more than 256 MB: export without --jsonArray");
      list.push(text);
    }
  }
  if (list === undefined) return;
  const documents = parse(list.join("\n"), "the list");
  if (!Array.isArray(documents)) throw new Error("it is no list of documents");
  yield* documents as object[];
}

function parse(text: string, place: string): object {
  try {
    return BSON.EJSON.parse(text, { relaxed: true }) as object;
  } catch (error) {
    throw new Error(`${place} is no Extended JSON (${sentence(error)})`, { cause: error });
  }
}

/** Turns values of MongoDB into plain data: object ids into their hex digits, and all numbers into numbers. */
function plain(value: unknown): unknown {
  if (value === null || typeof value !== "object" || value instanceof Date) {
    return typeof value === "bigint" ? Number(value) : value;
  }
  if (Array.isArray(value)) return value.map(plain);
  if ("_bsontype" in value) return scalarOf(value);
  const record: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [key, each] of Object.entries(value)) record[key] = plain(each);
  return record;
}

function scalarOf(value: { _bsontype?: unknown }): unknown {
  if (value instanceof BSON.ObjectId) return value.toHexString();
  const isNumber =
    value instanceof BSON.Long ||
    value instanceof BSON.Double ||
    value instanceof BSON.Int32 ||
    value instanceof BSON.Decimal128;
  return isNumber ? Number(value.toString()) : String(value);
}
