import { parsePricing } from "../../core/pricing/parse/pricing.ts";
import { MANIFEST, type ServiceEntry, type VersionEntry } from "../../core/folder/manifest.ts";
import { Names } from "../../core/folder/names.ts";
import { CliFailure, type Io } from "../command.ts";
import { atEntry, readInside, versionKey } from "./folder.ts";

/** A version of the server that needs a file. */
interface Version {
  readonly pricingVersion: string;
}

interface Folder {
  readonly folder: string;
  readonly io: Io;
  readonly warnings: string[];
}

/**
 * Finds the entries of a folder's service for the versions of the server: by the versions in the files, then by names
 * of missing files, then in order, if as many files are missing. Entries without a version are named in the warnings.
 * @throws CliFailure if several files could be meant for a version.
 */
export async function matchVersions<T extends Version>(
  name: string,
  versions: readonly T[],
  entry: ServiceEntry | undefined,
  { folder, io, warnings }: Folder,
): Promise<Map<T, VersionEntry>> {
  const matched = new Map<T, VersionEntry>();
  const { byVersion, missing, unreadable, repeated } = await readEntries(entry?.versions ?? [], folder, io);
  const match = (version: T, found: VersionEntry | undefined) => {
    if (found === undefined) return;
    matched.set(version, found);
    missing.delete(found);
  };
  for (const version of versions) {
    const found = byVersion.get(versionKey(version.pricingVersion));
    byVersion.delete(versionKey(version.pricingVersion));
    match(version, found);
  }
  const unnamed = () => versions.filter((version) => !matched.has(version));
  for (const version of unnamed()) {
    const file = defaultFile(name, version);
    match(
      version,
      [...missing].find((each) => each.file.toLowerCase() === file),
    );
  }
  const left = unnamed();
  if (unreadable.length === 0 && left.length === missing.size) {
    const inOrder = [...missing];
    for (const [index, version] of left.entries()) match(version, inOrder[index]);
  } else if (left.length > 0 && unreadable.length + missing.size > 0) {
    throw ambiguous(folder, name, left, [...missing], unreadable);
  }
  const stays = (why: string) => `${why}: its entry in ${MANIFEST} stays as it is`;
  for (const [version, { file }] of byVersion)
    warnings.push(stays(`${name} ${version} (${file}) is not on the server`));
  for (const { file } of repeated) warnings.push(stays(`${file} has the version of another file of ${name}`));
  for (const { file } of unreadable) warnings.push(stays(`${file} is not a valid pricing`));
  for (const { file } of missing)
    warnings.push(stays(`${file} does not exist, and every version of ${name} on the server has another file`));
  return matched;
}

/** Returns the path that a version has without a manifest. */
function defaultFile(service: string, { pricingVersion }: Version): string {
  const names = new Names([]);
  return names.file(names.folder(service), pricingVersion, ".yml");
}

async function readEntries(entries: readonly VersionEntry[], folder: string, io: Io) {
  const byVersion = new Map<string, VersionEntry>();
  const missing = new Set<VersionEntry>();
  const unreadable: VersionEntry[] = [];
  const repeated: VersionEntry[] = [];
  for (const entry of entries) {
    const text = await readInside(folder, entry.file, io, entry.place);
    const parsed = text === undefined ? undefined : parsePricing(text, io.now());
    if (parsed === undefined) missing.add(entry);
    else if (!parsed.ok) unreadable.push(entry);
    else if (byVersion.has(versionKey(parsed.pricing.version))) repeated.push(entry);
    else byVersion.set(versionKey(parsed.pricing.version), entry);
  }
  return { byVersion, missing, unreadable, repeated };
}

function ambiguous(
  folder: string,
  name: string,
  versions: readonly Version[],
  missing: readonly VersionEntry[],
  unreadable: readonly VersionEntry[],
): CliFailure {
  const { place = "1:1" } = missing[0] ?? unreadable[0] ?? {};
  const phrase = (entries: readonly VersionEntry[], one: string, many: string) =>
    entries.length === 0 ? [] : [`${listed(entries.map(({ file }) => file))} ${entries.length === 1 ? one : many}`];
  const what = [
    ...phrase(missing, "does not exist", "do not exist"),
    ...phrase(unreadable, "is not a valid pricing", "are not valid pricings"),
  ].join(", and ");
  const numbers = listed(versions.map(({ pricingVersion }) => pricingVersion));
  return new CliFailure(
    `${atEntry(folder, place)} ${what}, so that export cannot choose the files of ${name} ${numbers}. Name one missing file for each of these versions, or remove the entries`,
  );
}

const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
