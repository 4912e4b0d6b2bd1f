import type { VersionFile } from "../../client/back/services.ts";
import { equalJson } from "../../core/change/change.ts";
import { parsePricing } from "../../core/pricing/parse/pricing.ts";
import type { Io } from "../command.ts";
import { type FolderService, type FolderVersion, hasHash, versionKey, withoutMark } from "./folder.ts";
import { isSameName } from "./manifest.ts";
import type { Server, ServerService } from "./server.ts";

/** One call that brings a service closer to its folder. */
export type ServiceStep =
  | { readonly do: "create" | "upload" | "expectations"; readonly pricingVersion: string; readonly file: string }
  | { readonly do: "rename"; readonly from: string; readonly to: string }
  | { readonly do: "activate"; readonly pricingVersion: string }
  | {
      readonly do: "archive";
      readonly pricingVersion: string;
      /** Version to which contracts move. */
      readonly to: string;
      readonly by: "groups" | "fallback" | "bestFit";
    }
  | { readonly do: "publish" | "unpublish" };

/** Changes of one service, without their effect on contracts. */
export interface ServiceChanges {
  readonly steps: readonly ServiceStep[];
  readonly refusals: readonly string[];
  readonly notes: readonly string[];
  /** Versions that are uploaded, in the order of upload. */
  readonly missing: readonly FolderVersion[];
  /** The server's service, under any name; undefined where it is created. */
  readonly current: ServerService | undefined;
}

/** Facts about the organization that the steps of a service depend on. */
export interface Surroundings {
  readonly server: Server;
  readonly io: Io;
  readonly prune: boolean;
  /** False leaves versions as they are, with `--only public`. */
  readonly versions: boolean;
  /** Published services; undefined leaves that as it is. */
  readonly published: readonly string[] | undefined;
  /** Names of all services of the server. */
  readonly names: readonly string[];
  /** Names of all services of the folder. */
  readonly folderNames: readonly string[];
}

/** Returns the version that a file stands for. */
export const storedOf = (current: ServerService | undefined, { pricing }: FolderVersion): VersionFile | undefined =>
  current?.versions.find(({ pricingVersion }) => versionKey(pricingVersion) === versionKey(pricing.version));

/** Compares a service of the folder with the server. */
export async function changesOf(service: FolderService, around: Surroundings): Promise<ServiceChanges> {
  const { entry } = service;
  const current = await findService(service, around);
  const refusals: string[] = [];
  const notes: string[] = [];
  const steps: ServiceStep[] = [];
  let missing: readonly FolderVersion[] = [];
  if (around.versions) {
    for (const version of service.versions) {
      const stored = storedOf(current, version);
      if (stored === undefined || current === undefined) continue;
      const difference = await differenceOf(version, stored, current, around);
      if (difference === "model")
        refusals.push(
          `${entry.name} ${stored.pricingVersion} differs from the server's: a version never changes, give it a new number`,
        );
      if (difference === "text")
        notes.push(
          `${entry.name} ${stored.pricingVersion}: ${version.source.file} differs from the server's text, but not in its meaning; the text of a version never changes`,
        );
    }
    missing = service.versions.filter((version) => storedOf(current, version) === undefined);
    const misnamed = current === undefined ? misnamedOf(service) : [];
    refusals.push(...misnamed, ...unlistedOf(service, current, around));
    if (misnamed.length === 0) refusals.push(...nameClashesOf(service, current, missing, around));
    steps.push(...uploadsOf(service, current, missing), ...(await expectationsOf(service, current)));
    steps.push(...availabilityOf(service, current, missing, around));
  } else if (current === undefined && entry.public !== undefined) refusals.push(`${entry.name} is not on the server`);
  steps.push(...publishingOf(service, around));
  return { steps, refusals, notes, missing, current };
}

/**
 * Finds the server's service, also under its former name. One with the name in the files counts if an earlier run left
 * it there between two renames: all of its versions are in the folder, which says that the service was renamed.
 */
async function findService(service: FolderService, around: Surroundings): Promise<ServerService | undefined> {
  const { server, names, folderNames } = around;
  const { name, renamedFrom } = service.entry;
  const found =
    (await server.service(name)) ?? (renamedFrom === undefined ? undefined : await server.service(renamedFrom));
  if (found !== undefined || misnamedOf(service).length > 0) return found;
  for (const name of new Set(service.versions.map(({ pricing }) => pricing.saasName))) {
    const isOther = folderNames.some((other) => isSameName(other, name));
    if (isOther || !names.some((other) => isSameName(other, name))) continue;
    const candidate = await server.service(name);
    if (candidate === undefined) continue;
    const isOurs = await Promise.all(
      candidate.versions.map(async ({ pricingVersion, sha256 }) => {
        const ours = service.versions.find(({ pricing }) => versionKey(pricing.version) === versionKey(pricingVersion));
        return ours !== undefined && hasHash(ours.source.text, sha256);
      }),
    );
    if (isOurs.every(Boolean)) return candidate;
  }
  return undefined;
}

/** Returns how a file differs from the stored version. */
async function differenceOf(
  { source, pricing }: FolderVersion,
  stored: VersionFile,
  current: ServerService,
  { server, io }: Surroundings,
): Promise<"none" | "text" | "model"> {
  if (await hasHash(source.text, stored.sha256)) return "none";
  const text = withoutMark(await server.source(current.name, stored.pricingVersion));
  const parsed = parsePricing(text, io.now());
  return parsed.ok && equalJson(parsed.pricing, pricing) ? "text" : "model";
}

/** Refuses a service that no file names: its key may be mistyped, and uploading would rename a service to it. */
function misnamedOf({ entry: { name, renamedFrom }, versions }: FolderService): string[] {
  const named = new Set(versions.map(({ pricing }) => pricing.saasName));
  const [first] = named;
  const isNamed = [...named].some((each) => isSameName(each, name) || isSameName(each, renamedFrom ?? ""));
  if (first === undefined || isNamed) return [];
  return [
    `${name}: its files have the name ${[...named].join(", ")}. Name the service as they do, or add "renamedFrom: ${first}" if ${name} is its new name`,
  ];
}

/** Refuses active versions that the folder lacks. A file that is no pricing may be any of them. */
function unlistedOf(service: FolderService, current: ServerService | undefined, { prune }: Surroundings): string[] {
  if (prune) return [];
  return unlisted(service, current).map(
    ({ pricingVersion }) =>
      `${service.entry.name} ${pricingVersion} is active on the server and not in the folder: export it, or archive it with --prune`,
  );
}

function unlisted({ versions, lacksVersions }: FolderService, current: ServerService | undefined): VersionFile[] {
  if (lacksVersions) return [];
  const keys = new Set(versions.map(({ pricing }) => versionKey(pricing.version)));
  return (current?.versions ?? []).filter(
    ({ state, pricingVersion }) => state === "active" && !keys.has(versionKey(pricingVersion)),
  );
}

/** Refuses files whose name belongs to another service: uploading them renames the service for a moment. */
function nameClashesOf(
  { entry }: FolderService,
  current: ServerService | undefined,
  missing: readonly FolderVersion[],
  { names, folderNames }: Surroundings,
): string[] {
  const taken = [...names.filter((name) => name !== current?.name), ...folderNames];
  return missing.flatMap(({ source, pricing: { saasName } }) =>
    isSameName(saasName, entry.name) || !taken.some((name) => isSameName(name, saasName))
      ? []
      : [`${source.file} belongs to ${entry.name} and has the name ${saasName}, which is another service`],
  );
}

/** Uploads under the name in each file, with renames before and after where that is not the service's own. */
function uploadsOf(
  { entry }: FolderService,
  current: ServerService | undefined,
  missing: readonly FolderVersion[],
): ServiceStep[] {
  const steps: ServiceStep[] = [];
  let name = current?.name;
  for (const { pricing, source } of missing) {
    const { saasName } = pricing;
    if (name !== undefined && !isSameName(name, saasName)) steps.push({ do: "rename", from: name, to: saasName });
    steps.push({ do: name === undefined ? "create" : "upload", pricingVersion: pricing.version, file: source.file });
    if (name === undefined || !isSameName(name, saasName)) name = saasName;
  }
  if (name !== undefined && !isSameName(name, entry.name)) steps.push({ do: "rename", from: name, to: entry.name });
  return steps;
}

async function expectationsOf(service: FolderService, current: ServerService | undefined): Promise<ServiceStep[]> {
  const steps: ServiceStep[] = [];
  for (const version of service.versions) {
    const { expectations } = version;
    const stored = storedOf(current, version);
    if (stored === undefined || expectations === undefined) continue;
    if (await hasHash(expectations.text, stored.expectations)) continue;
    steps.push({ do: "expectations", pricingVersion: stored.pricingVersion, file: expectations.file });
  }
  return steps;
}

/** A version as it is after the uploads. */
interface Expected {
  pricingVersion: string;
  createdAt: number;
  isActive: boolean;
}

/** Activates first, so that an archived version always has another one. Archives the newest first. */
function availabilityOf(
  service: FolderService,
  current: ServerService | undefined,
  missing: readonly FolderVersion[],
  { prune }: Surroundings,
): ServiceStep[] {
  const versions: Expected[] = [
    ...(current?.versions ?? []).map(({ pricingVersion, createdAt, state }) => ({
      pricingVersion,
      createdAt: Date.parse(createdAt),
      isActive: state === "active",
    })),
    ...missing.map(({ pricing }) => ({
      pricingVersion: pricing.version,
      createdAt: Date.parse(pricing.createdAt),
      isActive: true,
    })),
  ];
  const find = (version: string) =>
    versions.find(({ pricingVersion }) => versionKey(pricingVersion) === versionKey(version));
  const steps: ServiceStep[] = [];
  const doomed: Expected[] = prune
    ? unlisted(service, current).flatMap(({ pricingVersion }) => find(pricingVersion) ?? [])
    : [];
  for (const { entry, pricing } of service.versions) {
    const version = find(pricing.version);
    if (version === undefined || version.isActive === (entry.state === "active")) continue;
    if (version.isActive) doomed.push(version);
    else {
      steps.push({ do: "activate", pricingVersion: version.pricingVersion });
      version.isActive = true;
    }
  }
  const { moves } = service.entry;
  const by = (moves?.groups ?? []).length > 0 ? "groups" : moves?.fallback === undefined ? "bestFit" : "fallback";
  for (const version of doomed.toSorted((one, other) => other.createdAt - one.createdAt)) {
    version.isActive = false;
    const to = newestOf(versions)?.pricingVersion ?? "";
    steps.push({ do: "archive", pricingVersion: version.pricingVersion, to, by });
  }
  return steps;
}

/** Returns the active version to which the server moves contracts: the newest file, and of one day the first upload. */
export function newestOf<T extends { readonly createdAt: number; readonly isActive: boolean }>(
  versions: readonly T[],
): T | undefined {
  const active = versions.filter(({ isActive }) => isActive);
  return active.toSorted((one, other) => other.createdAt - one.createdAt)[0];
}

function publishingOf({ entry }: FolderService, { published }: Surroundings): ServiceStep[] {
  if (published === undefined || entry.public === undefined) return [];
  const isPublished = published.some((name) => isSameName(name, entry.name));
  if (isPublished === entry.public) return [];
  return [{ do: entry.public ? "publish" : "unpublish" }];
}

/** Formats a step as a phrase. */
export function describeStep(step: ServiceStep): string {
  switch (step.do) {
    case "create":
      return `create it with ${step.pricingVersion} from ${step.file}`;
    case "upload":
      return `upload ${step.pricingVersion} from ${step.file}`;
    case "expectations":
      return `replace the expectations of ${step.pricingVersion} from ${step.file}`;
    case "rename":
      return `rename ${step.from} to ${step.to}`;
    case "activate":
      return `activate ${step.pricingVersion}`;
    case "archive":
      return `archive ${step.pricingVersion}; contracts move to ${step.to}, ${TARGETS[step.by]}`;
    default:
      return `${step.do} its offer`;
  }
}

const TARGETS = {
  groups: "to the targets of the folder's groups",
  fallback: "to the fallback of the folder",
  bestFit: "where they fit best",
} as const;
