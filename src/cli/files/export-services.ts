import { parsePricing } from "../../core/pricing/parse/pricing.ts";
import { MANIFEST, type ServiceEntry, type VersionEntry } from "../../core/folder/manifest.ts";
import { formerName, Names } from "../../core/folder/names.ts";
import { CliFailure, type Io } from "../command.ts";
import { versionKey, withoutMark } from "./folder.ts";
import { isAddressable, isSameName } from "./manifest.ts";
import { matchVersions } from "./matching.ts";
import type { Server, ServerService } from "./server.ts";

/** A version of the server with its texts. */
export interface ExportedVersion {
  readonly pricingVersion: string;
  readonly state: "active" | "archived";
  readonly saasName: string;
  readonly text: string;
  readonly expectations: string | undefined;
}

export interface ServicesExport {
  readonly folder: string;
  readonly server: Server;
  readonly io: Io;
  readonly before: readonly ServiceEntry[];
  /** Texts by path, to which the services add theirs. */
  readonly files: ExportedFiles;
  readonly warnings: string[];
}

/** The texts of an export by path. */
export class ExportedFiles {
  readonly texts = new Map<string, string>();
  readonly #owners = new Map<string, string>([[MANIFEST, "the manifest"]]);

  /** Adds a text. `owner` names it in messages. @throws CliFailure if the path belongs to another text. */
  add(path: string, text: string, owner: string): void {
    const other = this.#owners.get(path.toLowerCase());
    if (other !== undefined && this.texts.get(path) !== text)
      throw new CliFailure(`${path} is the file of ${other} and of ${owner}. Name a file of its own for each`);
    this.#owners.set(path.toLowerCase(), owner);
    this.texts.set(path, text);
  }
}

/** Returns the name that the server has for an entry: its own, else its former one. Undefined if there is none. */
export const serverName = (entry: ServiceEntry, names: readonly string[]): string | undefined =>
  names.find((name) => isSameName(name, entry.name)) ?? names.find((name) => isSameName(name, entry.renamedFrom ?? ""));

/** A service of the server, with its entry and the versions that an export writes. */
interface FoundService {
  readonly service: ServerService;
  readonly entry: ServiceEntry | undefined;
  readonly versions: readonly ExportedVersion[];
  readonly paths: ReadonlyMap<ExportedVersion, VersionEntry>;
}

/**
 * Exports services: first those of the folder in its order, then the others by name. Entries that the server does not
 * have stay, and are named in the warnings.
 */
export async function exportServices(given: ServicesExport): Promise<ServiceEntry[]> {
  const { server, before, warnings } = given;
  const [names, disabled] = await Promise.all([server.serviceNames(), server.serviceNames("disabled")]);
  const found: FoundService[] = [];
  for (const name of names) {
    if (!isAddressable(name)) warnings.push(`The service "${name}" is left out: no URL can have its name`);
    const service = isAddressable(name) ? await server.service(name) : undefined;
    if (service === undefined) continue;
    const entry = before.find((each) => serverName(each, names) === name);
    const versions = await readVersions(service, given);
    if (entry === undefined && !versions.some(({ state }) => state === "active")) {
      warnings.push(`${name} is left out: it has no active version that a folder can have`);
      continue;
    }
    found.push({ service, entry, versions, paths: await matchVersions(service.name, versions, entry, given) });
  }
  const missing = before.filter((each) => !found.some(({ entry }) => entry === each));
  for (const { name } of missing) {
    const isDisabled = disabled.some((each) => isSameName(each, name));
    const why = isDisabled ? "is disabled on the server" : "is not on the server";
    warnings.push(`${name} ${why}: its entry in ${MANIFEST} stays as it is`);
  }
  const leftOut = disabled.filter((each) => !missing.some(({ name }) => isSameName(each, name)));
  warnings.push(...leftOut.map((name) => `${name} is left out: it is disabled`));
  const taken = new Names(
    before.flatMap(({ versions }) => versions.flatMap(({ file, expectations }) => [file, expectations ?? file])),
  );
  const entries = new Map(found.map((each) => [each, entryOf(each, taken, given)]));
  const kept = before.map((each) => [...entries].find(([{ entry }]) => entry === each)?.[1] ?? each);
  return [...kept, ...[...entries].flatMap(([{ entry }, exported]) => (entry === undefined ? [exported] : []))];
}

async function readVersions(
  { name, versions }: ServerService,
  { server, io, warnings }: ServicesExport,
): Promise<ExportedVersion[]> {
  const exported: ExportedVersion[] = [];
  for (const { pricingVersion, state, saasName, expectations } of versions) {
    if (!isAddressable(pricingVersion)) {
      warnings.push(`${name} "${pricingVersion}" is left out: no URL can have its version`);
      continue;
    }
    const text = withoutMark(await server.source(name, pricingVersion));
    const parsed = parsePricing(text, io.now());
    if (parsed.ok && versionKey(parsed.pricing.version) !== versionKey(pricingVersion)) {
      warnings.push(
        `${name} ${pricingVersion} is left out: it was renamed when the service was created again, and its file has the version ${parsed.pricing.version}`,
      );
      continue;
    }
    const expected = expectations === null ? undefined : withoutMark(await server.expectations(name, pricingVersion));
    exported.push({ pricingVersion, state, saasName, text, expectations: expected });
  }
  return exported;
}

/** Builds the entry of a service, and adds its texts. New versions stand behind their predecessor on the server. */
function entryOf({ service, entry, versions, paths }: FoundService, taken: Names, given: ServicesExport): ServiceEntry {
  const folderName = taken.folder(service.name);
  const rows = [...(entry?.versions ?? [])];
  let last = -1;
  for (const version of versions) {
    const before = paths.get(version);
    const row = rowOf(
      service.name,
      version,
      before,
      (ending) => taken.file(folderName, version.pricingVersion, ending),
      given,
    );
    const at = before === undefined ? -1 : rows.indexOf(before);
    if (at < 0) rows.splice(last + 1, 0, row);
    else rows[at] = row;
    last = at < 0 ? last + 1 : at;
  }
  if (entry !== undefined) return { ...entry, versions: rows };
  const renamedFrom = formerName(
    service.name,
    versions.map(({ saasName }) => saasName),
  );
  return { name: service.name, ...(renamedFrom === undefined ? {} : { renamedFrom }), versions: rows };
}

function rowOf(
  service: string,
  { pricingVersion, state, text, expectations }: ExportedVersion,
  before: VersionEntry | undefined,
  newFile: (ending: ".yml" | ".expectations.yml") => string,
  { files, warnings }: ServicesExport,
): VersionEntry {
  const owner = `${service} ${pricingVersion}`;
  const file = before?.file ?? newFile(".yml");
  files.add(file, text, owner);
  if (expectations === undefined && before?.expectations !== undefined)
    warnings.push(`${before.expectations} is not on the server: its entry in ${MANIFEST} stays as it is`);
  if (expectations === undefined) return { ...before, file, state };
  const beside = before?.expectations ?? newFile(".expectations.yml");
  files.add(beside, expectations, `the expectations of ${owner}`);
  return { ...before, file, state, expectations: beside };
}
