import type { Manifest, ServiceEntry, VersionEntry, WebhookEntry } from "./manifest.ts";

/** Texts that need no quotes: no other type, no character with a meaning in YAML. */
const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/;
const WORDS: ReadonlySet<string> = new Set(["true", "false", "null", "yes", "no", "on", "off"]);

/** Writes a text of YAML. JSON's quotes and escapes are YAML's. */
const scalar = (text: string): string =>
  PLAIN.test(text) && !WORDS.has(text.toLowerCase()) ? text : JSON.stringify(text);

/** Writes a value of YAML on one line. */
export function flowText(value: unknown): string {
  if (typeof value === "string") return scalar(value);
  if (Array.isArray(value)) return `[${value.map(flowText).join(", ")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const pairs = Object.entries(value).flatMap(([key, each]) => (each === undefined ? [] : [pairText(key, each)]));
  return pairs.length === 0 ? "{}" : `{ ${pairs.join(", ")} }`;
}

/** Writes a pair of a map on one line. */
export const pairText = (key: string, value: unknown): string => `${scalar(key)}: ${flowText(value)}`;

/** Writes items as the lines below a key. */
export const itemLines = (items: readonly unknown[]): string[] => items.map((item) => `- ${flowText(item)}`);

const indented = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);

const listLines = (key: string, items: readonly unknown[]): string[] =>
  items.length === 0 ? [`${key}: []`] : [`${key}:`, ...indented(itemLines(items))];

/** Picks the keys of a version in the order of the guide, without its default state. */
export const versionKeys = ({ file, state, expectations }: VersionEntry): object => ({
  file,
  state: state === "active" ? undefined : state,
  expectations,
});

/** Picks the keys of a webhook, without its defaults. */
export const webhookKeys = ({ url, description, codes, enabled }: WebhookEntry): object => ({
  url,
  description: description ?? undefined,
  codes: codes ?? undefined,
  enabled: enabled ? undefined : false,
});

/** Picks the keys of a service but its name. */
export const serviceKeys = ({ public: isPublic, renamedFrom, versions, moves }: ServiceEntry): object => ({
  public: isPublic,
  renamedFrom,
  versions: versions.map(versionKeys),
  moves,
});

/** Writes a service as lines without indentation. */
export function serviceLines({ name, public: isPublic, renamedFrom, versions, moves }: ServiceEntry): string[] {
  const { fallback, groups } = moves ?? {};
  return [
    `${scalar(name)}:`,
    ...indented([
      ...(isPublic === undefined ? [] : [pairText("public", isPublic)]),
      ...(renamedFrom === undefined ? [] : [pairText("renamedFrom", renamedFrom)]),
      ...listLines("versions", versions.map(versionKeys)),
      ...(moves === undefined ? [] : ["moves:"]),
      ...indented(fallback === undefined ? [] : [pairText("fallback", fallback)]),
      ...indented(groups === undefined ? [] : listLines("groups", groups)),
    ]),
  ];
}

/** Writes the parts of a manifest that are given as lines, in the order of the guide. */
export function partLines({ services, gate, alerts, webhooks }: Manifest): string[] {
  return [
    ...(services === undefined ? [] : [services.length === 0 ? "services: {}" : "services:"]),
    ...indented((services ?? []).flatMap(serviceLines)),
    ...(gate === undefined ? [] : listLines("gate", gate)),
    ...(alerts === undefined ? [] : [pairText("alerts", alerts)]),
    ...(webhooks === undefined ? [] : listLines("webhooks", webhooks.map(webhookKeys))),
  ];
}

/** Writes a manifest. Equal manifests have equal texts. */
export const manifestText = (manifest: Manifest): string => ["faregate: 1", ...partLines(manifest), ""].join("\n");
