import { ServiceRequestError } from "../../client/service-request-error.ts";
import { equalJson } from "../../core/change/change.ts";
import { manifestText } from "../../core/folder/manifest-text.ts";
import { type Manifest, MANIFEST, type ServiceEntry, type WebhookEntry } from "../../core/folder/manifest.ts";
import { DEFAULT_THRESHOLDS } from "../../core/usage-alerts.ts";
import { CliFailure, type Io } from "../command.ts";
import { ExportedFiles, exportServices, serverName } from "./export-services.ts";
import { pathIn, readInside, readManifest } from "./folder.ts";
import { editManifest, equalManifests } from "./manifest-edit.ts";
import { webhookAddress } from "./manifest.ts";
import { pairWebhooks, webhookDifference } from "./parts.ts";
import type { Part, PlanOptions } from "./plan.ts";
import { takesPart } from "./planning.ts";
import type { Server, ServerWebhook } from "./server.ts";

/** Result of an export. */
export interface Exported {
  /** Files whose text changed, relative to the folder. */
  readonly written: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * Writes the organization's services and settings into a folder. Files keep the paths that its manifest names, and the
 * manifest keeps everything that is as on the server, and the entries that the server does not have.
 * @throws CliFailure for a folder with other content and no manifest, and before anything is written.
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
  const files = new ExportedFiles();
  const takes = (part: Part) => takesPart(options, part);
  const services = takes("services")
    ? { services: await exportServices({ folder, server, io, before: before?.services ?? [], files, warnings }) }
    : {};
  const settings = await exportSettings(server, before, options, warnings);
  const manifest = await withOffers({ ...before, ...services, ...settings }, server, options);
  const listing = before === undefined ? manifestText(manifest) : await editedListing(folder, before, manifest, io);
  const changed = new Map<string, string>();
  for (const [path, text] of files.texts) if ((await readInside(folder, path, io)) !== text) changed.set(path, text);
  if (listing !== undefined) changed.set(MANIFEST, listing);
  // Everything that may be refused was read by now.
  for (const [path, text] of changed) await io.writeFile(pathIn(folder, path), text, { createFolder: true });
  return { written: [...changed.keys()], warnings };
}

/** Returns the manifest's text with its changes; undefined if it means the same already. */
async function editedListing(folder: string, before: Manifest, after: Manifest, io: Io): Promise<string | undefined> {
  if (equalManifests(before, after)) return undefined;
  const path = pathIn(folder, MANIFEST);
  const text = (await io.readFile(path)) ?? "";
  const mark = text.startsWith("\uFEFF") ? "\uFEFF" : "";
  return mark + editManifest(path, text.slice(mark.length), before, after);
}

/** Exports the settings that the key may read, where the folder has them or the server has some. */
async function exportSettings(
  server: Server,
  before: Manifest | undefined,
  options: Pick<PlanOptions, "only">,
  warnings: string[],
): Promise<Partial<Manifest>> {
  const { isUser } = server.rights;
  const takes = (part: Part) => takesPart(options, part);
  const gate = isUser && takes("gate") ? await server.gate() : undefined;
  const thresholds = isUser && takes("alerts") ? await readable(server.thresholds()) : undefined;
  const webhooks = takes("webhooks") ? await readable(server.webhooks()) : undefined;
  const isListed = equalJson(
    thresholds,
    before?.alerts?.thresholds.toSorted((one, other) => one - other),
  );
  return {
    ...(gate !== undefined && (gate.length > 0 || before?.gate !== undefined) ? { gate } : {}),
    ...(thresholds !== undefined &&
    !isListed &&
    (!equalJson(thresholds, DEFAULT_THRESHOLDS) || before?.alerts !== undefined)
      ? { alerts: { thresholds } }
      : {}),
    ...(webhooks !== undefined && (webhooks.length > 0 || before?.webhooks !== undefined)
      ? { webhooks: exportWebhooks(before?.webhooks ?? [], webhooks, warnings) }
      : {}),
  };
}

/** Lists webhooks: first those of the folder in its order, then the others. */
function exportWebhooks(
  before: readonly WebhookEntry[],
  webhooks: readonly ServerWebhook[],
  warnings: string[],
): WebhookEntry[] {
  const { pairs, rest } = pairWebhooks(before, webhooks);
  const entries = pairs.map(({ entry, found }) => {
    if (found === undefined)
      warnings.push(`The webhook ${entry.url} is not on the server: its entry in ${MANIFEST} stays as it is`);
    return found === undefined || webhookDifference(entry, found).length === 0 ? entry : entryOf(found, entry);
  });
  for (const webhook of rest) {
    const isTwin = entries.some(({ url }) => url === webhookAddress(webhook.url));
    if (isTwin) warnings.push(`A second webhook ${webhook.url} is left out: a folder has one per address`);
    else entries.push(entryOf(webhook));
  }
  return entries;
}

/** Codes are a set: those of the folder keep their order if they are the server's. */
const entryOf = ({ url, description, codes, state }: ServerWebhook, before?: WebhookEntry): WebhookEntry => ({
  url: before?.url ?? url,
  description,
  codes: equalJson(before?.codes?.toSorted(), codes?.toSorted()) ? (before?.codes ?? null) : codes,
  enabled: state !== "disabled",
});

/** Undefined for what the key may not read. @throws ServiceRequestError for everything else. */
async function readable<T>(reading: Promise<T>): Promise<T | undefined> {
  return reading.catch((error: unknown) => {
    if (error instanceof ServiceRequestError && (error.status === 403 || error.status === 404)) return undefined;
    throw error;
  });
}

/** Says of each service on the server whether its offer is published, where the key may read that. */
async function withOffers(manifest: Manifest, server: Server, options: Pick<PlanOptions, "only">): Promise<Manifest> {
  const { services } = manifest;
  if (!server.rights.isUser || !takesPart(options, "public") || services === undefined) return manifest;
  const [published, names] = await Promise.all([server.published(), server.serviceNames()]);
  const withOffer = (entry: ServiceEntry): ServiceEntry => {
    const name = serverName(entry, names);
    const isPublic = name !== undefined && published.includes(name);
    // A service that is not published needs no line, unless the folder has one.
    return name === undefined || (!isPublic && entry.public === undefined) ? entry : { ...entry, public: isPublic };
  };
  return { ...manifest, services: services.map(withOffer) };
}
