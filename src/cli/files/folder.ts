import { parseExpectations } from "../../core/change/expectations/expectations.ts";
import type { Pricing } from "../../core/pricing/model.ts";
import { parsePricing } from "../../core/pricing/parse/pricing.ts";
import { CliFailure, type Io } from "../command.ts";
import { listProblems } from "../pricing-file.ts";
import { type Manifest, MANIFEST, type ServiceEntry, type VersionEntry } from "../../core/folder/manifest.ts";
import { isAddressable, parseManifest } from "./manifest.ts";

/** A file of a folder: its path in it, and its text without a byte order mark. */
export interface FolderFile {
  readonly file: string;
  readonly text: string;
}

/** A version of a folder with its files. */
export interface FolderVersion {
  readonly entry: VersionEntry;
  readonly source: FolderFile;
  readonly pricing: Pricing;
  readonly expectations: FolderFile | undefined;
}

export interface FolderService {
  readonly entry: ServiceEntry;
  readonly versions: readonly FolderVersion[];
  /** One sentence per file that is no pricing, and per version that is there twice. */
  readonly problems: readonly string[];
  /** True if some file is no pricing, so that the list of versions is not complete. */
  readonly lacksVersions: boolean;
}

/** A folder as it was read. */
export interface Folder {
  readonly manifest: Manifest;
  readonly services: readonly FolderService[];
}

/** Joins a folder and a path in it. */
export const pathIn = (folder: string, path: string) =>
  folder === "." ? path : `${folder.replace(/\/+$/, "")}/${path}`;

/** Names a path in a folder for a message that others may read, without absolute paths of this machine. */
const shownIn = (folder: string, path: string) => (/^(?:[/\\]|[A-Za-z]:)/.test(folder) ? path : pathIn(folder, path));

/** Removes the byte order mark, which is not part of a file's text. */
export const withoutMark = (text: string) => (text.startsWith("\uFEFF") ? text.slice(1) : text);

/** Returns the SHA-256 of a text in hex, as the server lists it. */
export async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns true if this is the hash of the text. The server keeps the byte order mark of an upload. */
export async function hasHash(text: string, hash: string | null): Promise<boolean> {
  return hash !== null && (hash === (await sha256(text)) || hash === (await sha256(`\uFEFF${text}`)));
}

/**
 * Reads a file of a folder. Undefined if it does not exist.
 * @throws CliFailure for a link that leads out of the folder.
 */
export async function readInside(folder: string, path: string, io: Io, place?: string): Promise<string | undefined> {
  await requireInside(folder, path, io, place);
  const text = await io.readFile(pathIn(folder, path));
  return text === undefined ? undefined : withoutMark(text);
}

/** @throws CliFailure if a link takes the path out of the folder. `place` is that of its entry in the manifest. */
async function requireInside(folder: string, path: string, io: Io, place?: string): Promise<void> {
  const root = await io.realPath(folder);
  if (root === undefined) return;
  // A path that does not exist yet counts as its nearest part that does.
  for (let at = path; at !== ""; at = at.split("/").slice(0, -1).join("/")) {
    const real = await io.realPath(pathIn(folder, at));
    if (real === undefined) continue;
    const prefix = root.endsWith("/") ? root : `${root}/`;
    if (real.replaceAll("\\", "/").startsWith(prefix.replaceAll("\\", "/"))) return;
    const [where, what] = place === undefined ? ["", shownIn(folder, path)] : [`${atEntry(folder, place)} `, path];
    throw new CliFailure(`${where}${what} leads out of the folder through a link. Put the file itself there`);
  }
}

/** Formats the place of an entry, as `faregate.yml:line:column`. */
export const atEntry = (folder: string, place: string) => `${shownIn(folder, MANIFEST)}:${place}`;

/**
 * Reads the manifest of a folder. Undefined if there is none.
 * @throws CliFailure with line and column of every problem.
 */
export async function readManifest(folder: string, io: Io): Promise<Manifest | undefined> {
  const text = await readInside(folder, MANIFEST, io);
  return text === undefined ? undefined : parseManifest(pathIn(folder, MANIFEST), text);
}

/**
 * Reads a folder.
 * @throws CliFailure for a manifest that is missing or cannot be used, and for files that do not exist.
 */
export async function readFolder(folder: string, io: Io): Promise<Folder> {
  const manifest = await readManifest(folder, io);
  if (manifest === undefined) throw new CliFailure(`${pathIn(folder, MANIFEST)} does not exist.`);
  const services: FolderService[] = [];
  for (const entry of manifest.services ?? []) services.push(await readService(folder, entry, io));
  return { manifest, services };
}

async function readService(folder: string, entry: ServiceEntry, io: Io): Promise<FolderService> {
  const versions: FolderVersion[] = [];
  const problems: string[] = [];
  let lacksVersions = false;
  for (const each of entry.versions) {
    const { place = "1:1" } = each;
    const read = async (file: string): Promise<FolderFile> => {
      const text = await readInside(folder, file, io, place);
      if (text !== undefined) return { file, text };
      throw new CliFailure(`${atEntry(folder, place)} ${shownIn(folder, file)} does not exist.`);
    };
    const source = await read(each.file);
    const expectations = each.expectations === undefined ? undefined : await read(each.expectations);
    const parsed = parsePricing(source.text, io.now());
    if (!parsed.ok) {
      problems.push(`${each.file} is not a valid pricing:${listProblems(each.file, parsed.problems)}`);
      lacksVersions = true;
      continue;
    }
    const { pricing } = parsed;
    if (!isAddressable(pricing.version))
      problems.push(`${each.file} has the version "${pricing.version}", which no URL can have`);
    const twin = versions.find((other) => versionKey(other.pricing.version) === versionKey(pricing.version));
    if (twin !== undefined)
      problems.push(`${each.file} and ${twin.source.file} both have the version ${pricing.version}`);
    const unread = expectations === undefined ? undefined : problemsOf(expectations, pricing);
    if (unread !== undefined) problems.push(unread);
    versions.push({ entry: each, source, pricing, expectations });
  }
  return { entry, versions, problems, lacksVersions };
}

function problemsOf({ file, text }: FolderFile, pricing: Pricing): string | undefined {
  const read = parseExpectations(text, pricing);
  return read.ok ? undefined : `${file} cannot be used:${listProblems(file, read.problems)}`;
}

/** Comparison key of a version, as on the server: `_` equals `.`. */
export const versionKey = (version: string) => version.replaceAll("_", ".");
