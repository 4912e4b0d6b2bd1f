import { type Configuration, configurationOf, type GroupTarget } from "../../core/change/configuration.ts";
import { type GateRule, gateRules, gateSentence } from "../../core/change/impact/gate.ts";
import { EVENT_CODES } from "../../core/event-messages.ts";
import type { Manifest, Moves, ServiceEntry, VersionEntry, WebhookEntry } from "../../core/folder/manifest.ts";
import { Problems, Section } from "../../core/pricing/parse/problems.ts";
import { isDate, isList, isMap, shown } from "../../core/pricing/parse/tree.ts";
import type { TreeEntry, TreeMap, TreeValue } from "../../core/pricing/parse/tree.ts";
import { positions, readYaml } from "../../core/pricing/parse/yaml.ts";
import { areThresholds, THRESHOLDS_RULE } from "../../core/usage-alerts.ts";
import { MAX_WEBHOOK_DESCRIPTION } from "../../core/webhooks.ts";
import { CliFailure } from "../command.ts";
import { listProblems } from "../pricing-file.ts";

/** Address in the form in which the server stores it: normalized, without a fragment. */
export function webhookAddress(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  url.hash = "";
  return url.href;
}

/** Reads the tree of a manifest and collects all problems. */
class Reader {
  readonly problems = new Problems();
  readonly #placeOf: (offset: number) => string;

  constructor(source: string) {
    const locate = positions(source);
    this.#placeOf = (offset) => Object.values(locate(offset)).join(":");
  }

  read(root: TreeValue): Manifest {
    const top = this.#section(undefined, { value: root, at: 0 }, "", ["faregate", ...PARTS]);
    const format = top.value("faregate");
    if (format !== 1) top.fail("faregate", `faregate must be 1, the version of the format. Received: ${shown(format)}`);
    const has = (key: string) => top.map.entries.has(key);
    return {
      ...(has("services") ? { services: this.#services(top) } : {}),
      ...(has("gate") ? { gate: this.#gate(top) } : {}),
      ...(has("alerts") ? { alerts: this.#alerts(top) } : {}),
      ...(has("webhooks") ? { webhooks: this.#webhooks(top) } : {}),
    };
  }

  /** Opens a map with these keys, and reports anything else. */
  #section(
    parent: Section | undefined,
    entry: Pick<TreeEntry, "value" | "at">,
    path: string,
    keys?: readonly string[],
  ): Section {
    const { value, at } = entry;
    const map: TreeMap = isMap(value) ? value : { kind: "map", at, entries: new Map() };
    const section = parent?.below(map, path, at) ?? new Section(this.problems, map, path, at, "");
    if (!isMap(value)) {
      section.failAt("", at, `${path === "" ? "The file" : path} must be a map. Received: ${shown(value)}`);
    }
    for (const [key, { at: found }] of map.entries)
      if (keys?.includes(key) === false) section.failAt(key, found, `${key} is unknown. Allowed: ${keys.join(", ")}`);
    return section;
  }

  #items(section: Section, key: string): readonly TreeEntry[] {
    const value = section.value(key);
    if (isList(value)) return value.items;
    section.fail(key, `${key} must be a list. Received: ${shown(value)}`);
    return [];
  }

  #text(section: Section, key: string): string | undefined {
    const value = section.value(key);
    if (isDate(value)) return value.text;
    if (typeof value === "string" && value !== "") return value;
    if (value !== null || section.map.entries.has(key))
      section.fail(key, `${key} must be a text. Received: ${shown(value)}`);
    return undefined;
  }

  #flag(section: Section, key: string): boolean | undefined {
    const value = section.value(key);
    if (typeof value === "boolean") return value;
    if (section.map.entries.has(key)) section.fail(key, `${key} must be true or false. Received: ${shown(value)}`);
    return undefined;
  }

  #services(top: Section): ServiceEntry[] {
    const all = this.#section(top, entryOf(top, "services"), "services");
    const seen = new Set<string>();
    const former = new Set<string | undefined>();
    return [...all.map.entries].map(([name, entry]) => {
      if (seen.has(name.toLowerCase())) all.failAt(name, entry.at, `The service ${name} is there twice`);
      seen.add(name.toLowerCase());
      if (!isAddressable(name)) all.failAt(name, entry.at, `The service "${name}" has a name that no URL can have`);
      const section = this.#section(all, entry, name, ["public", "renamedFrom", "versions", "moves"]);
      const isPublic = this.#flag(section, "public");
      const renamedFrom = this.#text(section, "renamedFrom");
      const isOther = [...all.map.entries.keys()].some((key) => key !== name && isSameName(key, renamedFrom ?? ""));
      if (isOther) section.fail("renamedFrom", `renamedFrom must not name ${renamedFrom}, a service of this folder`);
      if (renamedFrom !== undefined && former.has(renamedFrom.toLowerCase()))
        section.fail("renamedFrom", `The former name ${renamedFrom} is there twice`);
      former.add(renamedFrom?.toLowerCase());
      const items = this.#items(section, "versions");
      const versions = items.map((item, index) => this.#version(section, item, `versions.${index}`));
      if (isList(section.value("versions")) && !versions.some(({ state }) => state === "active"))
        section.fail("versions", `${name} needs at least one active version`);
      const moves = section.map.entries.has("moves") ? { moves: this.#moves(section) } : {};
      return {
        name,
        ...(isPublic === undefined ? {} : { public: isPublic }),
        ...(renamedFrom === undefined ? {} : { renamedFrom }),
        versions,
        ...moves,
      };
    });
  }

  #version(parent: Section, item: TreeEntry, path: string): VersionEntry {
    const section = this.#section(parent, item, path, ["file", "state", "expectations"]);
    const file = this.#path(section, "file");
    if (isMap(item.value) && !section.map.entries.has("file")) section.fail("file", "file is required");
    const expectations = this.#path(section, "expectations");
    const state = section.value("state") ?? "active";
    if (state !== "active" && state !== "archived")
      section.fail("state", `state must be active or archived. Received: ${shown(state)}`);
    return {
      file: file ?? "",
      state: state === "archived" ? "archived" : "active",
      ...(expectations === undefined ? {} : { expectations }),
      place: this.#placeOf(item.at),
    };
  }

  #path(section: Section, key: string): string | undefined {
    const path = this.#text(section, key);
    if (path === undefined) return undefined;
    // `./a.yml` and `a.yml` are one file.
    const inside = path
      .split("/")
      .filter((part) => part !== ".")
      .join("/");
    if (isInside(inside)) return inside;
    section.fail(key, `${key} must be a path inside the folder, without .. and backslashes. Received: ${path}`);
    return undefined;
  }

  #moves(parent: Section): Moves {
    const section = this.#section(parent, entryOf(parent, "moves"), "moves", ["fallback", "groups"]);
    const has = (key: string) => section.map.entries.has(key);
    return {
      ...(has("fallback") ? { fallback: this.#configuration(section, "fallback") } : {}),
      ...(has("groups")
        ? { groups: this.#items(section, "groups").map((item, index) => this.#group(section, item, `groups.${index}`)) }
        : {}),
    };
  }

  #group(parent: Section, item: TreeEntry, path: string): GroupTarget {
    const section = this.#section(parent, item, path, ["pricingVersion", "configuration", "target"]);
    const pricingVersion = this.#text(section, "pricingVersion");
    return {
      ...(pricingVersion === undefined ? {} : { pricingVersion }),
      configuration: this.#configuration(section, "configuration"),
      target: this.#configuration(section, "target"),
    };
  }

  #configuration(parent: Section, key: string): Configuration {
    const section = this.#section(parent, entryOf(parent, key), key, ["plan", "addOns"]);
    const plan = this.#text(section, "plan");
    const addOns: Record<string, number> = {};
    if (section.map.entries.has("addOns")) {
      const given = this.#section(section, entryOf(section, "addOns"), "addOns");
      for (const [name, { value, at }] of given.map.entries) {
        if (typeof value === "number" && Number.isFinite(value)) addOns[name] = value;
        else given.failAt(name, at, `The quantity of ${name} must be a number. Received: ${shown(value)}`);
      }
    }
    return configurationOf(plan, addOns);
  }

  #gate(top: Section): GateRule[] {
    const { value, at } = entryOf(top, "gate");
    const read = gateRules.safeParse(plain(value), { error: gateSentence });
    if (read.success) return read.data;
    for (const { path, message } of read.error.issues) {
      const place = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`)).join("");
      top.failAt(`gate${place}`, offsetOf(value, path) ?? at, `gate${place} ${message}`);
    }
    return [];
  }

  #alerts(top: Section): { thresholds: number[] } {
    const section = this.#section(top, entryOf(top, "alerts"), "alerts", ["thresholds"]);
    const thresholds: number[] = [];
    const items = this.#items(section, "thresholds");
    for (const { value, at } of items) {
      if (typeof value === "number") thresholds.push(value);
      else section.failAt(`thresholds@${at}`, at, `Each of thresholds must be a number. Received: ${shown(value)}`);
    }
    if (isList(section.value("thresholds")) && thresholds.length === items.length && !areThresholds(thresholds))
      section.fail("thresholds", `thresholds ${THRESHOLDS_RULE}`);
    return { thresholds };
  }

  #webhooks(top: Section): WebhookEntry[] {
    const seen = new Set<string>();
    return this.#items(top, "webhooks").map((item, index) => {
      const section = this.#section(top, item, `webhooks.${index}`, ["url", "description", "codes", "enabled"]);
      const given = this.#text(section, "url");
      if (given === undefined && !section.map.entries.has("url")) section.fail("url", "url is required");
      if (given !== undefined && !URL.canParse(given))
        section.fail("url", `url must be an address. Received: ${given}`);
      const url = webhookAddress(given ?? "");
      if (seen.has(url)) section.fail("url", `The webhook ${url} is there twice`);
      seen.add(url);
      const hasCodes = section.value("codes") !== null;
      const description = section.value("description") === null ? null : (this.#text(section, "description") ?? null);
      if ((description?.length ?? 0) > MAX_WEBHOOK_DESCRIPTION)
        section.fail("description", `description must not be longer than ${MAX_WEBHOOK_DESCRIPTION} characters`);
      const enabled = this.#flag(section, "enabled") ?? true;
      return { url, description, codes: hasCodes ? this.#codes(section) : null, enabled };
    });
  }

  #codes(section: Section): string[] {
    const known: readonly string[] = EVENT_CODES;
    const value = section.value("codes");
    if (isList(value) && value.items.length === 0)
      section.fail("codes", "codes must not be empty. Leave it out for all");
    return this.#items(section, "codes").map(({ value, at }) => {
      const code = shown(value);
      if (!known.includes(code)) section.failAt(`codes@${at}`, at, `${code} is no code of an event`);
      return code;
    });
  }
}

const PARTS = ["services", "gate", "alerts", "webhooks"] as const;

const entryOf = ({ map, at }: Section, key: string): Pick<TreeEntry, "value" | "at"> =>
  map.entries.get(key) ?? { value: null, at };

/** Returns true if two names mean one service: the server ignores letter case. */
export const isSameName = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();

/** Returns true if a name can be a segment of a URL's path. */
export const isAddressable = (name: string) => !/^(\s*|\.\.?)$/.test(name);

/** Returns true for a relative path without steps out of the folder. */
function isInside(path: string): boolean {
  if (path.startsWith("/") || path.includes("\\") || /^[A-Za-z]:/.test(path)) return false;
  return path.split("/").every((part) => part !== "" && part !== "..");
}

/** Converts a tree to plain data. */
function plain(value: TreeValue): unknown {
  if (isList(value)) return value.items.map((item) => plain(item.value));
  if (isDate(value)) return value.text;
  return isMap(value) ? Object.fromEntries([...value.entries].map(([key, entry]) => [key, plain(entry.value)])) : value;
}

/** Returns the offset of the deepest value on a path that exists. */
function offsetOf(root: TreeValue, path: readonly PropertyKey[]): number | undefined {
  let at: number | undefined;
  let value: TreeValue | undefined = root;
  for (const step of path) {
    const entry: TreeEntry | undefined = isList(value)
      ? value.items[Number(step)]
      : isMap(value)
        ? value.entries.get(String(step))
        : undefined;
    if (entry === undefined) break;
    ({ at, value } = entry);
  }
  return at;
}

/**
 * Parses a manifest.
 * @throws CliFailure with line and column of every problem.
 */
export function parseManifest(path: string, text: string): Manifest {
  const document = readYaml(text);
  if (!document.ok) {
    throw new CliFailure(
      `${path} cannot be read:${listProblems(path, [{ kind: "yaml", path: "", ...document.failure }])}`,
    );
  }
  const reader = new Reader(text);
  const manifest = reader.read(document.root);
  if (reader.problems.none) return manifest;
  throw new CliFailure(`${path} cannot be used:${listProblems(path, reader.problems.list(text))}`);
}
