import { ServiceRequestError } from "../../client/service-request-error.ts";
import { equalJson } from "../../core/change/change.ts";
import { parsePricing } from "../../core/pricing/parse/pricing.ts";
import { DEFAULT_THRESHOLDS } from "../../core/usage-alerts.ts";
import { CliFailure, type Io } from "../command.ts";
import { pathIn, readInside, readManifest, requireInside, versionKey, withoutMark } from "./folder.ts";
import { type Manifest, MANIFEST, type ServiceEntry, type VersionEntry } from "../../core/folder/manifest.ts";
import { isAddressable, isSameName } from "./manifest.ts";
import { manifestText } from "../../core/folder/manifest-text.ts";
import { formerName, Names } from "../../core/folder/names.ts";
import type { Part, PlanOptions } from "./plan.ts";
import { takesPart } from "./planning.ts";
import type { Server, ServerService } from "./server.ts";

/** Result of an export. */
export interface Exported {
  /** Files whose text changed, relative to the folder. */
  readonly written: readonly string[];
  readonly warnings: readonly string[];
}

/** A version of the server with its texts, and the paths that the folder has for it. */
interface ExportedVersion {
  readonly pricingVersion: string;
  readonly state: "active" | "archived";
  readonly saasName: string;
  readonly text: string;
  readonly expectations: string | undefined;
  readonly before: VersionEntry | undefined;
}

/**
 * Writes the organization's services and settings into a folder. Files keep the paths that its manifest names.
 * @throws CliFailure for a folder with other content and no manifest.
 */
export async function exportFolder(
  folder: string,
  server: Server,
  io: Io,
  options: Pick<PlanOptions, "only">,
): Promise<Exported> {
  const before = await readManifest(folder, io);
  if (before === undefined && ((await io.listFolder(folder)) ?? []).some((name) => name !== ".git")) {
    throw new CliFailure(`${folder} is not empty and has no ${MANIFEST}: name another folder`);
  }
  const warnings: string[] = [];
  const files = new Map<string, string>();
  const takes = (part: Part) => takesPart(options, part);
  const services = takes("services")
    ? { services: await exportServices({ folder, server, io, before: before?.services ?? [], files, warnings }) }
    : {};
  const settings = await exportSettings(server, before, options);
  const manifest = await withOffers({ ...before, ...services, ...settings }, server, options);
  const written: string[] = [];
  const write = async (path: string, text: string) => {
    if ((await readInside(folder, path, io)) === text) return;
    await requireInside(folder, path, io);
    await io.writeFile(pathIn(folder, path), text, { createFolder: true });
    written.push(path);
  };
  for (const [path, text] of files) await write(path, text);
  if (before === undefined || !equalJson(meaningOf(before), meaningOf(manifest))) {
    await write(MANIFEST, manifestText(manifest));
  }
  return { written, warnings };
}

interface ServicesExport {
  readonly folder: string;
  readonly server: Server;
  readonly io: Io;
  readonly before: readonly ServiceEntry[];
  /** Texts by path, to which the services add theirs. */
  readonly files: Map<string, string>;
  readonly warnings: string[];
}

/** Exports services in the order of the folder, and then by name. */
async function exportServices(given: ServicesExport): Promise<ServiceEntry[]> {
  const { folder, server, io, before } = given;
  const [names, disabled] = await Promise.all([server.serviceNames(), server.serviceNames("disabled")]);
  given.warnings.push(...disabled.map((name) => `${name} is left out: it is disabled`));
  const rank = (name: string) => {
    const at = before.findIndex((entry) => isSameName(entry.name, name));
    return at < 0 ? before.length : at;
  };
  const found: { service: ServerService; entry: ServiceEntry | undefined; versions: ExportedVersion[] }[] = [];
  for (const name of names.toSorted((one, other) => rank(one) - rank(other))) {
    if (!isAddressable(name)) given.warnings.push(`The service "${name}" is left out: no URL can have its name`);
    if (!isAddressable(name)) continue;
    const service = await server.service(name);
    if (service === undefined) continue;
    const entry = before.find((each) => isSameName(each.name, name));
    const known = entry === undefined ? new Map<string, VersionEntry>() : await versionsOf(folder, entry, io);
    found.push({ service, entry, versions: await exportVersions(service, known, given) });
  }
  const kept = found.flatMap(({ versions }) => versions.flatMap(({ before }) => [before?.file, before?.expectations]));
  const taken = new Names(kept.flatMap((path) => path ?? []));
  return found.map(({ service, entry, versions }) => {
    const folderName = taken.folder(service.name);
    const rows = versions.map((version) => entryOf(version, folderName, taken, given.files));
    const order = (row: VersionEntry) => {
      const at = entry?.versions.findIndex(({ file }) => file === row.file) ?? -1;
      return at < 0 ? rows.length : at;
    };
    const { moves, public: isPublic } = entry ?? {};
    const saasNames = versions.map(({ saasName }) => saasName);
    const renamedFrom = entry === undefined ? formerName(service.name, saasNames) : entry.renamedFrom;
    return {
      name: entry?.name ?? service.name,
      ...(isPublic === undefined ? {} : { public: isPublic }),
      ...(renamedFrom === undefined ? {} : { renamedFrom }),
      versions: rows.toSorted((one, other) => order(one) - order(other)),
      ...(moves === undefined ? {} : { moves }),
    };
  });
}

/** Returns the entries of a folder's service by version. Files that are missing or no pricings have none. */
async function versionsOf(folder: string, { versions }: ServiceEntry, io: Io): Promise<Map<string, VersionEntry>> {
  const byVersion = new Map<string, VersionEntry>();
  for (const entry of versions) {
    const text = await readInside(folder, entry.file, io);
    const parsed = text === undefined ? undefined : parsePricing(text, io.now());
    if (parsed?.ok === true) byVersion.set(versionKey(parsed.pricing.version), entry);
  }
  return byVersion;
}

async function exportVersions(
  { name, versions }: ServerService,
  known: ReadonlyMap<string, VersionEntry>,
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
    exported.push({
      pricingVersion,
      state,
      saasName,
      text,
      expectations: expectations === null ? undefined : withoutMark(await server.expectations(name, pricingVersion)),
      before: known.get(versionKey(pricingVersion)),
    });
  }
  return exported;
}

function entryOf(
  { pricingVersion, state, text, expectations, before }: ExportedVersion,
  folderName: string,
  taken: Names,
  files: Map<string, string>,
): VersionEntry {
  const file = before?.file ?? taken.file(folderName, pricingVersion, ".yml");
  files.set(file, text);
  if (expectations === undefined) return { file, state };
  const beside = before?.expectations ?? taken.file(folderName, pricingVersion, ".expectations.yml");
  files.set(beside, expectations);
  return { file, state, expectations: beside };
}

/** Exports the settings that the key may read, where the folder has them or the server has some. */
async function exportSettings(
  server: Server,
  before: Manifest | undefined,
  options: Pick<PlanOptions, "only">,
): Promise<Partial<Manifest>> {
  const { isUser } = server.rights;
  const takes = (part: Part) => takesPart(options, part);
  const gate = isUser && takes("gate") ? await server.gate() : undefined;
  const thresholds = isUser && takes("alerts") ? await readable(server.thresholds()) : undefined;
  const webhooks = takes("webhooks") ? await readable(server.webhooks()) : undefined;
  return {
    ...(gate !== undefined && (gate.length > 0 || before?.gate !== undefined) ? { gate } : {}),
    ...(thresholds !== undefined && (!equalJson(thresholds, DEFAULT_THRESHOLDS) || before?.alerts !== undefined)
      ? { alerts: { thresholds } }
      : {}),
    ...(webhooks !== undefined && (webhooks.length > 0 || before?.webhooks !== undefined)
      ? {
          webhooks: webhooks.map(({ url, description, codes, state }) => ({
            url,
            description,
            codes,
            enabled: state !== "disabled",
          })),
        }
      : {}),
  };
}

/** Undefined for what the key may not read. @throws ServiceRequestError for everything else. */
async function readable<T>(reading: Promise<T>): Promise<T | undefined> {
  return reading.catch((error: unknown) => {
    if (error instanceof ServiceRequestError && (error.status === 403 || error.status === 404)) return undefined;
    throw error;
  });
}

/** Says of each service whether its offer is published, where the key may read that. */
async function withOffers(manifest: Manifest, server: Server, options: Pick<PlanOptions, "only">): Promise<Manifest> {
  if (!server.rights.isUser || !takesPart(options, "public")) return manifest;
  const published = await server.published();
  const services = manifest.services?.map((entry) => {
    const isPublic = published.some((name) => isSameName(name, entry.name));
    // A service that is not published needs no line, unless the folder has one.
    return isPublic || entry.public !== undefined ? { ...entry, public: isPublic } : entry;
  });
  return services === undefined ? manifest : { ...manifest, services };
}

/** A manifest without the places of its lines. Lists of webhooks and of thresholds are sets. */
function meaningOf({ services, alerts, webhooks, ...rest }: Manifest): object {
  return {
    ...rest,
    services: services?.map(({ versions, ...service }) => ({
      ...service,
      versions: versions.map(({ file, state, expectations = null }) => ({ file, state, expectations })),
    })),
    thresholds: alerts?.thresholds.toSorted((one, other) => one - other),
    webhooks: webhooks?.toSorted((one, other) => (one.url < other.url ? -1 : 1)),
  };
}
