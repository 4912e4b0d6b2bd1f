import { isOffer } from "../ask.ts";
import type { Offer } from "../offer.ts";
import { isObject } from "../pricing-token.ts";
import { ServiceRequestError } from "../service-request-error.ts";
import type { ReplayOptions, ReplayReport } from "./replay.ts";
import { type Call, type CallOptions, listOf, segment, type Transport } from "./transport.ts";

/** A service with its versions. Each was uploaded, or fetched from a URL. Source: contract services-pricings §3. */
export interface Service {
  readonly id: string;
  readonly name: string;
  readonly organizationId: string;
  readonly activePricings: Readonly<Record<string, { readonly id: string } | { readonly url: string }>>;
  readonly archivedPricings?: Readonly<Record<string, { readonly id: string } | { readonly url: string }>>;
}

/** Name, description and further fields of an element of a pricing. */
interface Named {
  readonly name: string;
  readonly description?: string;
  readonly [field: string]: unknown;
}

/** One version of a service's pricing. */
export interface Pricing {
  readonly version: string;
  readonly currency: string;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly features: Readonly<Record<string, Named & { readonly valueType: "BOOLEAN" | "NUMERIC" | "TEXT" }>>;
  readonly usageLimits: Readonly<Record<string, Named & { readonly type: "RENEWABLE" | "NON_RENEWABLE" }>>;
  readonly plans: Readonly<Record<string, Named & { readonly price: number | string }>>;
  readonly addOns: Readonly<Record<string, Named & { readonly price: number | string }>>;
}

/** A version with the SHA-256 of its texts, in hex. Source: contract files-and-migration §3. */
export interface VersionFile {
  readonly pricingVersion: string;
  readonly state: "active" | "archived";
  /** Service name in the file. It differs from the service's name after a rename. */
  readonly saasName: string;
  /** `createdAt` of the file, ISO 8601. */
  readonly createdAt: string;
  /** ISO 8601. */
  readonly uploadedAt: string;
  /** Address from which the pricing was fetched, or null. */
  readonly url: string | null;
  readonly sha256: string;
  /** Null for a version without expectations. */
  readonly expectations: string | null;
}

/** Read access to services and their pricings. Needs a key of any scope. Source: contract services-pricings §4. */
export class Services {
  private readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }

  /** Lists services by name. `name` matches any part, ignoring case; `limit` is at most 1,000. Default: 20. */
  async list(
    query: { name?: string; page?: number; limit?: number; order?: "asc" | "desc" } = {},
    options?: CallOptions,
  ): Promise<Service[]> {
    return this.transport.ask({ method: "GET", path: "/services", query }, listOf(isService), options);
  }

  /**
   * Returns a service.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async get(serviceName: string, options?: CallOptions): Promise<Service> {
    return this.transport.ask({ method: "GET", path: pathOf(serviceName) }, isService, options);
  }

  /** Lists the versions of a service, in the order of their upload. */
  async pricings(
    serviceName: string,
    query: { pricingStatus?: "active" | "archived" } = {},
    options?: CallOptions,
  ): Promise<Pricing[]> {
    const path = `${pathOf(serviceName)}/pricings`;
    return this.transport.ask({ method: "GET", path, query }, listOf(isPricing), options);
  }

  /**
   * Returns what a service sells, for an end user or for everybody. Rejects in an outage, because an offer is never
   * made up.
   * @throws ServiceRequestError with status 404 if there is no such service or version.
   */
  async offer(
    serviceName: string,
    options: CallOptions & { userId?: string | undefined; pricingVersion?: string | undefined } = {},
  ): Promise<Offer> {
    const { userId, pricingVersion } = options;
    const query = { userId, pricingVersion };
    return this.transport.ask({ method: "GET", path: `${pathOf(serviceName)}/offer`, query }, isOffer, options);
  }

  /** Lists all versions of a service in the order of upload, with the hashes of their texts. */
  async versions(serviceName: string, options?: CallOptions): Promise<VersionFile[]> {
    return this.transport.ask(
      { method: "GET", path: `${pathOf(serviceName)}/versions` },
      listOf(isVersionFile),
      options,
    );
  }

  /**
   * Returns the text of a version exactly as uploaded, or as fetched from its URL.
   * @throws ServiceRequestError with status 404 if there is no such version.
   */
  async source(serviceName: string, pricingVersion: string, options?: CallOptions): Promise<string> {
    return (await this.transport.send(textOf(serviceName, pricingVersion, "source"), options)).text;
  }

  /**
   * Returns the text of a version's expectations; null for a version without any.
   * @throws ServiceRequestError with status 404 if there is no such version.
   */
  async expectations(serviceName: string, pricingVersion: string, options?: CallOptions): Promise<string | null> {
    try {
      return (await this.transport.send(textOf(serviceName, pricingVersion, "expectations"), options)).text;
    } catch (error) {
      const none = `Pricing version ${pricingVersion} of service ${serviceName} has no expectations`;
      if (error instanceof ServiceRequestError && error.message === none) return null;
      throw error;
    }
  }

  /**
   * Says what last month would have been under a version or a draft: who would have been stopped, and what everybody would have
   * paid. Changes nothing. Needs a key of scope MANAGEMENT or ALL.
   * @throws ServiceRequestError with status 429 while another replay of the organization runs.
   */
  async replay(
    serviceName: string,
    { pricing, ...replay }: ReplayOptions,
    options?: CallOptions,
  ): Promise<ReplayReport> {
    let body: object = replay;
    if (pricing !== undefined) {
      const form = new FormData();
      form.append("replay", JSON.stringify(replay));
      form.append("pricing", new Blob([pricing]), "pricing.yml");
      body = form;
    }
    const call = { method: "POST", path: `${pathOf(serviceName)}/replay`, body, isRead: true } as const;
    return this.transport.ask(call, isReplay, options);
  }

  /**
   * Returns one version.
   * @throws ServiceRequestError with status 404 if there is none.
   */
  async pricing(serviceName: string, pricingVersion: string, options?: CallOptions): Promise<Pricing> {
    const path = `${pathOf(serviceName)}/pricings${segment("pricingVersion", pricingVersion)}`;
    return this.transport.ask({ method: "GET", path }, isPricing, options);
  }
}

const pathOf = (serviceName: string) => `/services${segment("serviceName", serviceName)}`;

function textOf(serviceName: string, pricingVersion: string, file: "source" | "expectations"): Call {
  const path = `${pathOf(serviceName)}/pricings${segment("pricingVersion", pricingVersion)}/${file}`;
  return { method: "GET", path };
}

function isVersionFile(value: unknown): value is VersionFile {
  return isObject(value) && typeof value["pricingVersion"] === "string" && typeof value["sha256"] === "string";
}
function isReplay(value: unknown): value is ReplayReport {
  return isObject(value) && isObject(value["totals"]) && Array.isArray(value["groups"]);
}
function isService(value: unknown): value is Service {
  return isObject(value) && typeof value["name"] === "string" && isObject(value["activePricings"]);
}
function isPricing(value: unknown): value is Pricing {
  return isObject(value) && typeof value["version"] === "string" && isObject(value["features"]);
}
