import type { Manifest, ServiceEntry, VersionEntry, WebhookEntry } from "./manifest.ts";

/** Texts that need no quotes: no other type, no character with a meaning in YAML. */
const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/;
const WORDS: ReadonlySet<string> = new Set(["true", "false", "null", "yes", "no", "on", "off"]);

/** Writes a text of YAML. JSON's quotes and escapes are YAML's. */
const scalar = (text: string): string =>
  PLAIN.test(text) && !WORDS.has(text.toLowerCase()) ? text : JSON.stringify(text);

/** Writes a value on one line. */
function flow(value: unknown): string {
  if (typeof value === "string") return scalar(value);
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const pairs = Object.entries(value).flatMap(([key, each]) =>
    each === undefined ? [] : [`${scalar(key)}: ${flow(each)}`],
  );
  return pairs.length === 0 ? "{}" : `{ ${pairs.join(", ")} }`;
}

function list(key: string, items: readonly unknown[], indent: string): string {
  if (items.length === 0) return `${indent}${key}: []\n`;
  return `${indent}${key}:\n${items.map((item) => `${indent}  - ${flow(item)}\n`).join("")}`;
}

/** The keys of a version in the order of the guide, without its default state. */
const versionOf = ({ file, state, expectations }: VersionEntry) => ({
  file,
  state: state === "active" ? undefined : state,
  expectations,
});

/** The keys of a webhook, without its defaults. */
const webhookOf = ({ url, description, codes, enabled }: WebhookEntry) => ({
  url,
  description: description ?? undefined,
  codes: codes ?? undefined,
  enabled: enabled ? undefined : false,
});

function serviceText({ name, public: isPublic, renamedFrom, versions, moves }: ServiceEntry): string {
  return [
    `  ${scalar(name)}:\n`,
    isPublic === undefined ? "" : `    public: ${isPublic}\n`,
    renamedFrom === undefined ? "" : `    renamedFrom: ${scalar(renamedFrom)}\n`,
    list("versions", versions.map(versionOf), "    "),
    moves === undefined ? "" : "    moves:\n",
    moves?.fallback === undefined ? "" : `      fallback: ${flow(moves.fallback)}\n`,
    moves?.groups === undefined ? "" : list("groups", moves.groups, "      "),
  ].join("");
}

/** Writes a manifest. Equal manifests have equal texts. */
export function manifestText({ services, gate, alerts, webhooks }: Manifest): string {
  const none = services?.length === 0 ? " {}" : "";
  return [
    "faregate: 1\n",
    services === undefined ? "" : `services:${none}\n${services.map(serviceText).join("")}`,
    gate === undefined ? "" : list("gate", gate, ""),
    alerts === undefined ? "" : `alerts: ${flow(alerts)}\n`,
    webhooks === undefined ? "" : list("webhooks", webhooks.map(webhookOf), ""),
  ].join("");
}
