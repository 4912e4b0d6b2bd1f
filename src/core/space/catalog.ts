import { type CompiledPricing, compilePricing } from "../pricing/compile.ts";
import type { Pricing } from "../pricing/model.ts";
import { isDotSegment, serviceKey, versionKey } from "../pricing/names.ts";
import type { DeriveId } from "./accounts.ts";
import {
  createdWith,
  dateOf,
  entriesOf,
  isRecord,
  isTooLong,
  shown,
  type SpaceDocument,
  textOf,
  TOO_LONG,
} from "./documents.ts";
import type { Findings, LeftCode, Subject } from "./report.ts";
import { versionName } from "./reported.ts";
import { readStored, readFetched, type Texts } from "./version-text.ts";

export interface PlannedVersion {
  id: string;
  /** In its true spelling. */
  version: string;
  availability: "active" | "archived";
  url: string | null;
  yamlPath: string | null;
  source: string;
  pricing: Pricing;
  createdAt: Date;
}

export interface PlannedService {
  id: string;
  organizationId: string;
  name: string;
  disabled: boolean;
  hasArchive: boolean;
  createdAt: Date;
  /** In the order of upload. */
  versions: PlannedVersion[];
}

/** A service as contracts find it. */
export interface ContractableService {
  service: PlannedService;
  /** By comparison key. */
  versions: Map<string, { version: PlannedVersion; compiled: CompiledPricing }>;
}

/** One entry of a service's maps of versions. */
interface Locator {
  key: string;
  availability: "active" | "archived";
  id: string | undefined;
  url: string | undefined;
}

/** Locators of a service, those of active versions first. */
export function locatorsOf(document: SpaceDocument): Locator[] {
  const of = (field: string, availability: Locator["availability"]) =>
    entriesOf(document[field]).map(([key, locator]) => {
      const { id, url } = isRecord(locator) ? locator : {};
      return { key, availability, id: textOf(id), url: textOf(url) };
    });
  return [...of("activePricings", "active"), ...of("archivedPricings", "archived")];
}

/** Plans services with their versions. Source: contract files-and-migration §5. */
export class CatalogPlanner {
  private readonly pricings = new Map<string, SpaceDocument>();
  private readonly referenced = new Set<string>();
  private readonly paths = new Set<string>();
  private readonly ids = new Set<string>();
  private readonly byOrganization = new Map<string, Map<string, ContractableService>>();
  private readonly given: {
    findings: Findings;
    deriveId: DeriveId;
    texts: Texts;
    now: Date;
    organizations: ReadonlyMap<string, unknown>;
  };

  constructor(given: CatalogPlanner["given"]) {
    this.given = given;
  }

  addPricing(document: SpaceDocument): void {
    const name = `${shown(document["_serviceName"])} ${shown(document["version"])}`;
    const id = this.given.findings.open("pricings", "pricing", document, name);
    if (id === undefined) return;
    this.pricings.set(id, document);
    if (isTooLong(textOf(document["yamlPath"]) ?? "")) {
      this.given.findings.leave("document-invalid", { kind: "pricing", id, name }, `Its yamlPath is ${TOO_LONG}`);
    }
    for (const [field, isRight, kind] of [
      ["yamlPath", textOf, "text"],
      ["createdAt", dateOf, "date"],
    ] as const) {
      const given = document[field];
      if (given === undefined || given === null || given === "" || isRight(given) !== undefined) continue;
      const detail = `Its ${field} is ${shown(given)}, and no ${kind}`;
      this.given.findings.leave("document-invalid", { kind: "pricing", id, name }, detail);
    }
  }

  /** Finds the service that contracts of the organization name. */
  find(organizationId: string, name: string): ContractableService | undefined {
    return this.byOrganization.get(organizationId)?.get(serviceKey(name));
  }

  /** Call it after all services: names stored pricings that none of them refers to. */
  nameUnreferenced(): void {
    for (const [id, document] of this.pricings) {
      if (this.referenced.has(id)) continue;
      const name = `${shown(document["_serviceName"])} ${shown(document["version"])}`;
      this.given.findings.leave("pricing-unreferenced", { kind: "pricing", id, name }, "No service refers to it");
    }
  }

  planService(document: SpaceDocument): PlannedService | undefined {
    const { findings, organizations } = this.given;
    const name = textOf(document["name"])?.trim() ?? "";
    const id = findings.open("services", "service", document, name);
    const locators = locatorsOf(document);
    for (const locator of locators) if (locator.id !== undefined) this.referenced.add(locator.id);
    if (id === undefined) return undefined;
    const subject: Subject = { kind: "service", id, name };
    const leave = (code: LeftCode, detail: string, versions: readonly string[] = locators.map(({ key }) => key)) => {
      findings.leave(code, subject, detail);
      for (const version of versions) {
        findings.leave(code, { kind: "version", id, name: versionName(name, version) }, "Its service is left");
      }
      return undefined;
    };
    const organizationId = textOf(document["organizationId"]) ?? "";
    if (name === "" || this.ids.has(id)) {
      return leave("document-invalid", name === "" ? "It has no name" : "Its id is taken");
    }
    if (isTooLong(name)) return leave("document-invalid", `Its name is ${TOO_LONG}`);
    if (isDotSegment(name)) return leave("document-invalid", "Its name is . or .., which no address can carry");
    if (!organizations.has(organizationId)) {
      return leave("organization-missing", `There is no organization ${organizationId}`);
    }
    if (this.find(organizationId, name) !== undefined) {
      return leave("duplicate-name", "Another service has this name, or one that differs in case only");
    }
    const versions = this.versionsOf(locators, { id, organizationId, name });
    const disabled = document["disabled"] === true;
    if (!disabled && versions.every(({ availability }) => availability !== "active")) {
      return leave(
        "service-empty",
        "It has no active version left",
        versions.map(({ version }) => version),
      );
    }
    const service: PlannedService = {
      id,
      organizationId,
      name,
      disabled,
      hasArchive: isRecord(document["archivedPricings"]) || versions.some((each) => each.availability === "archived"),
      createdAt: createdWith(id),
      versions,
    };
    this.ids.add(id);
    findings.carried.services += 1;
    findings.carried.versions += versions.length;
    this.index(service);
    return service;
  }

  private index(service: PlannedService): void {
    const services = this.byOrganization.get(service.organizationId) ?? new Map<string, ContractableService>();
    this.byOrganization.set(service.organizationId, services);
    const versions = service.versions.map((version) => {
      return [versionKey(version.version), { version, compiled: compilePricing(version.pricing) }] as const;
    });
    services.set(serviceKey(service.name), { service, versions: new Map(versions) });
  }

  private versionsOf(
    locators: readonly Locator[],
    service: Pick<PlannedService, "id" | "organizationId" | "name">,
  ): PlannedVersion[] {
    const keys = new Set<string>();
    const planned: PlannedVersion[] = [];
    for (const locator of locators) {
      const subject: Subject = {
        kind: "version",
        id: locator.id ?? service.id,
        name: versionName(service.name, locator.key),
      };
      if (keys.has(versionKey(locator.key)) || (locator.id !== undefined && this.ids.has(locator.id))) {
        this.given.findings.leave("version-duplicate", subject, "Another version has this name, or its pricing");
        continue;
      }
      const version =
        locator.url === undefined
          ? this.storedVersion(locator, service, subject)
          : this.fetchedVersion(locator, locator.url, service, subject);
      if (version === undefined) continue;
      keys.add(versionKey(locator.key));
      this.ids.add(version.id);
      planned.push(version);
    }
    return planned.sort((one, other) => one.createdAt.getTime() - other.createdAt.getTime());
  }

  private storedVersion(
    { key, availability, id }: Locator,
    service: Pick<PlannedService, "name">,
    subject: Subject,
  ): PlannedVersion | undefined {
    const { findings, texts, now } = this.given;
    const document = id === undefined ? undefined : this.pricings.get(id);
    if (id === undefined || document === undefined) {
      findings.leave(
        "version-missing",
        subject,
        id === undefined ? "It names no pricing" : `No pricing has the id ${id}`,
      );
      return undefined;
    }
    const read = readStored(document, { key, serviceName: service.name, texts, now });
    if ("problem" in read) {
      findings.leave("version-unreadable", subject, read.problem);
      return undefined;
    }
    if (read.changed !== undefined) findings.change(read.changed.code, subject, read.changed.detail);
    const { version, source, pricing } = read;
    const yamlPath = this.pathOf(document["yamlPath"], id, subject);
    return { id, version, availability, url: null, yamlPath, source, pricing, createdAt: createdWith(id) };
  }

  private fetchedVersion(
    { key, availability }: Locator,
    url: string,
    service: Pick<PlannedService, "id">,
    subject: Subject,
  ): PlannedVersion | undefined {
    const { findings, deriveId, texts, now } = this.given;
    const read = readFetched(url, { key, texts, now });
    if ("problem" in read) {
      findings.leave(read.code, subject, read.problem);
      return undefined;
    }
    const { version, source, pricing } = read;
    const id = deriveId(`${service.id} version ${versionKey(key)}`);
    const createdAt = new Date(pricing.createdAt);
    return { id, version, availability, url, yamlPath: null, source, pricing, createdAt };
  }

  /** Public paths are unique: a second one gets the pricing's id. */
  private pathOf(value: unknown, id: string, subject: Subject): string | null {
    const text = textOf(value);
    if (text === undefined || isTooLong(text)) return null;
    const path = text.startsWith("/") ? text : `/${text}`;
    if (!this.paths.has(path)) {
      this.paths.add(path);
      return path;
    }
    const own = path.replace(/(\.[^./]*)?$/, (extension) => `-${id}${extension}`);
    this.given.findings.change("address-taken", subject, `${path} belongs to another version: it is at ${own}`);
    this.paths.add(own);
    return own;
  }
}
