import { isAlias } from "yaml";
import { equalJson } from "../../core/change/change.ts";
import {
  itemLines,
  partLines,
  serviceKeys,
  serviceLines,
  versionKeys,
  webhookKeys,
} from "../../core/folder/manifest-text.ts";
import type { Manifest, ServiceEntry, VersionEntry, WebhookEntry } from "../../core/folder/manifest.ts";
import { CliFailure } from "../command.ts";
import { parseManifest } from "./manifest.ts";
import { pairOf, Uneditable, YamlEdit } from "./yaml-edit.ts";

/** Compares two manifests without the places of their lines. Webhooks and thresholds are sets. */
export const equalManifests = (one: Manifest, other: Manifest): boolean => equalJson(meaningOf(one), meaningOf(other));

function meaningOf({ services, alerts, webhooks, ...rest }: Manifest): object {
  return {
    ...rest,
    services: services?.map(({ versions, ...service }) => ({ ...service, versions: versions.map(versionMeaning) })),
    thresholds: alerts?.thresholds.toSorted((one, other) => one - other),
    webhooks: webhooks?.toSorted((one, other) => (one.url < other.url ? -1 : 1)),
  };
}

const versionMeaning = ({ file, state, expectations }: VersionEntry) => ({ file, state, expectations });

/**
 * Changes the text of a manifest from `before` to `after`, and no other line. Services, versions and webhooks of
 * `before` are in `after`, too, in their order. A version without `place` is new.
 * @throws CliFailure for a text whose values stand elsewhere, by aliases and merge keys.
 */
export function editManifest(path: string, text: string, before: Manifest, after: Manifest): string {
  try {
    const result = edited(new YamlEdit(text), before, after);
    if (equalManifests(parseManifest(path, result), after)) return result;
  } catch (error) {
    if (!(error instanceof Uneditable) && !(error instanceof CliFailure)) throw error;
  }
  throw new CliFailure(
    `${path} cannot be edited line by line. Write its anchors, aliases and merge keys out, or export into another folder`,
  );
}

function edited(edit: YamlEdit, before: Manifest, after: Manifest): string {
  const { root } = edit;
  if (before.services !== undefined) editServices(edit, before.services, after.services ?? []);
  if (before.gate?.length === 0 && after.gate !== undefined && after.gate.length > 0)
    edit.fillEmpty(root, "gate", after.gate, itemLines(after.gate));
  else if (before.gate !== undefined) edit.set(root, "gate", before.gate, after.gate);
  if (before.alerts !== undefined && !equalJson(before.alerts, after.alerts))
    edit.set(pairOf(root, "alerts")?.value, "thresholds", before.alerts.thresholds, after.alerts?.thresholds);
  if (before.webhooks !== undefined) editWebhooks(edit, before.webhooks, after.webhooks ?? []);
  // Pairs at the end come last: several additions at one place keep their order.
  const { services, gate, alerts, webhooks } = after;
  const values = { services: services && servicesValue(services), gate, alerts, webhooks: webhooks?.map(webhookKeys) };
  for (const part of ["services", "gate", "alerts", "webhooks"] as const) {
    if (before[part] !== undefined || after[part] === undefined) continue;
    edit.addPairs(root, [[part, values[part]]], partLines({ [part]: after[part] }));
  }
  return edit.result();
}

const servicesValue = (services: readonly ServiceEntry[]) =>
  Object.fromEntries(services.map((each) => [each.name, serviceKeys(each)]));

function editServices(edit: YamlEdit, before: readonly ServiceEntry[], after: readonly ServiceEntry[]): void {
  const added = after.slice(before.length);
  if (before.length === 0) {
    if (added.length > 0) edit.fillEmpty(edit.root, "services", servicesValue(added), added.flatMap(serviceLines));
    return;
  }
  const services = pairOf(edit.root, "services")?.value;
  for (const [index, entry] of before.entries()) editService(edit, services, entry, after[index] ?? entry);
  if (added.length === 0) return;
  edit.addPairs(services, Object.entries(servicesValue(added)), added.flatMap(serviceLines));
}

function editService(edit: YamlEdit, services: unknown, before: ServiceEntry, after: ServiceEntry): void {
  if (equalManifests({ services: [before] }, { services: [after] })) return;
  const service = pairOf(services, before.name)?.value;
  if (!equalJson(before.versions.map(versionMeaning), after.versions.map(versionMeaning)))
    editVersions(edit, service, before.versions, after.versions);
  edit.set(service, "public", before.public, after.public);
}

function editVersions(
  edit: YamlEdit,
  service: unknown,
  before: readonly VersionEntry[],
  after: readonly VersionEntry[],
): void {
  const list = pairOf(service, "versions")?.value;
  if (isAlias(list)) return edit.set(service, "versions", null, after.map(versionKeys));
  let at = 0;
  let added: object[] = [];
  for (const version of after) {
    const old = version.place === undefined ? undefined : before[at];
    if (old === undefined) {
      added.push(versionKeys(version));
      continue;
    }
    edit.insertItems(list, at, added);
    added = [];
    edit.setItem(list, at, versionMeaning(old), versionMeaning(version), versionKeys(version));
    at += 1;
  }
  edit.insertItems(list, at, added);
}

function editWebhooks(edit: YamlEdit, before: readonly WebhookEntry[], after: readonly WebhookEntry[]): void {
  const added = after.slice(before.length).map(webhookKeys);
  if (before.length === 0) {
    if (added.length > 0) edit.fillEmpty(edit.root, "webhooks", added, itemLines(added));
    return;
  }
  const list = pairOf(edit.root, "webhooks")?.value;
  for (const [index, old] of before.entries()) {
    const webhook = after[index] ?? old;
    edit.setItem(list, index, { ...old }, { ...webhook }, webhookKeys(webhook));
  }
  edit.insertItems(list, before.length, added);
}
