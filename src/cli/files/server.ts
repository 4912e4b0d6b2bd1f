import type { VersionFile } from "../../client/back/services.ts";
import { type Call, expected, listOf, segment, type Transport } from "../../client/back/transport.ts";
import { isObject } from "../../client/pricing-token.ts";
import { ServiceRequestError } from "../../client/service-request-error.ts";
import type { GateRule } from "../../core/change/impact/gate.ts";
import type { ReplayReport } from "../../core/change/replay/report.ts";

/** Services per page. */
const PAGE = 1_000;

/** Rights of the key in its organization. */
export interface Rights {
  /** True for a user key. Organization keys cannot read gate, offers and alerts. */
  readonly isUser: boolean;
  /** OWNER or platform ADMIN: may override the gate. */
  readonly isOwner: boolean;
  /** OWNER or ADMIN, or platform ADMIN. */
  readonly isAdmin: boolean;
}

/** A service of the server. */
export interface ServerService {
  readonly name: string;
  /** In the order of upload. */
  readonly versions: readonly VersionFile[];
}

export interface ServerWebhook {
  readonly id: string;
  readonly url: string;
  readonly description: string | null;
  readonly codes: readonly string[] | null;
  readonly state: "enabled" | "disabled" | "suspended";
}

/** Parts of a prediction that a plan reads. It prints the whole answer. */
export interface Impact {
  readonly action: string;
  readonly pricingVersion: string | null;
  readonly targetVersion: string | null;
  readonly counts: { readonly contracts: number; readonly unplaced: number; readonly [count: string]: number };
  readonly groups: readonly ImpactGroup[];
  readonly gate: Gate;
}
export interface ImpactGroup {
  readonly pricingVersion: string;
  readonly configuration: { readonly plan?: string; readonly addOns: Readonly<Record<string, number>> };
  readonly target: ImpactGroup["configuration"] | null;
  readonly problem: { readonly message: string } | null;
  readonly counts: { readonly contracts: number; readonly losing: number; readonly gaining: number };
}
export interface Gate {
  readonly passed: boolean;
  readonly rules: readonly { readonly rule: GateRule; readonly passed: boolean; readonly reason: string }[];
}

/** Thrown for a change that the server holds until a second person approves it. */
export class HeldChange extends Error {
  readonly id: string;
  readonly summary: string;
  constructor(id: string, summary: string) {
    super(`${summary} waits for a second person: change request ${id}`);
    this.id = id;
    this.summary = summary;
  }
}

/** A connection with one organization of a server. */
export class Server {
  readonly organization: { readonly id: string; readonly name: string };
  readonly rights: Rights;
  readonly #transport: Transport;
  readonly #base: string;

  constructor(transport: Transport, organization: { readonly id: string; readonly name: string }, rights: Rights) {
    this.#transport = transport;
    this.organization = organization;
    this.rights = rights;
    this.#base = rights.isUser ? `/organizations/${organization.id}` : "";
  }

  /**
   * Sends a call below the organization, and returns its answer.
   * @throws ServiceRequestError; HeldChange for a change that waits for a second person.
   */
  async send(method: Call["method"], path: string, rest: Partial<Call> = {}) {
    const answer = await this.#transport.send({ ...rest, method, path: `${this.#base}${path}` });
    const held = isObject(answer.body) ? answer.body["changeRequest"] : undefined;
    if (isChangeRequest(held)) throw new HeldChange(held.id, held.summary);
    return answer;
  }

  async #read<T>(path: string, isIt: (value: unknown) => value is T, rest: Partial<Call> = {}): Promise<T> {
    return this.#transport.ask({ method: "GET", ...rest, path: `${this.#base}${path}` }, isIt);
  }

  async #text(path: string): Promise<string> {
    return (await this.#transport.send({ method: "GET", path: `${this.#base}${path}` })).text;
  }

  /** Lists the names of all services: those that are enabled, or those that are not. */
  async serviceNames(state: "enabled" | "disabled" = "enabled"): Promise<string[]> {
    const names: string[] = [];
    for (let after: string | null = ""; after !== null;) {
      const query = { after, limit: PAGE, ...(state === "disabled" ? { disabled: true } : {}) };
      const answer = await this.#transport.send({ method: "GET", path: `${this.#base}/services`, query });
      names.push(...expected(answer, listOf(isNamed)).map(({ name }) => name));
      after = answer.headers.get("next-after");
    }
    return names.toSorted((one, other) => (one < other ? -1 : 1));
  }

  /** Returns a service with its versions; undefined if there is none. */
  async service(name: string): Promise<ServerService | undefined> {
    try {
      const [shown, versions] = await Promise.all([
        this.#read(servicePath(name), isNamed),
        this.#read(`${servicePath(name)}/versions`, listOf(isVersion)),
      ]);
      return { name: shown.name, versions };
    } catch (error) {
      if (error instanceof ServiceRequestError && error.status === 404) return undefined;
      throw error;
    }
  }

  source(service: string, version: string): Promise<string> {
    return this.#text(versionPath(service, version, "/source"));
  }

  expectations(service: string, version: string): Promise<string> {
    return this.#text(versionPath(service, version, "/expectations"));
  }

  /** Predicts a change, with drafts that count as uploaded. */
  impact(service: string, change: object, drafts: readonly string[]): Promise<Impact> {
    let body: object = change;
    if (drafts.length > 0) {
      const form = new FormData();
      form.append("change", JSON.stringify(change));
      for (const text of drafts) form.append("pricing", new Blob([text]), "pricing.yml");
      body = form;
    }
    return this.#read(`${servicePath(service)}/impact`, isImpact, { method: "POST", body, isRead: true });
  }

  /** Replays recorded usage under a draft. */
  replay(service: string, options: object, draft: string): Promise<ReplayReport> {
    const form = new FormData();
    form.append("replay", JSON.stringify(options));
    form.append("pricing", new Blob([draft]), "pricing.yml");
    return this.#read(`${servicePath(service)}/replay`, isReplay, { method: "POST", body: form, isRead: true });
  }

  webhooks(): Promise<ServerWebhook[]> {
    return this.#read("/webhooks", listOf(isWebhook));
  }

  async gate(): Promise<readonly GateRule[]> {
    return (await this.#read("/gate", isGate)).rules;
  }

  /** Returns the thresholds of usage alerts, sorted. */
  async thresholds(): Promise<readonly number[]> {
    return (await this.#read("/usage-alerts", isAlerts)).thresholds;
  }

  async published(): Promise<readonly string[]> {
    return (await this.#read("/public-offer", isPublicOffer)).services;
  }
}

/** Path of a service, below the organization. */
export const servicePath = (service: string) => `/services${segment("service", service)}`;

/** Path of a version, below the organization. */
export const versionPath = (service: string, version: string, rest = "") =>
  `${servicePath(service)}/pricings${segment("pricingVersion", version)}${rest}`;

export const isText = (value: unknown): value is string => typeof value === "string";
export const isNamed = (value: unknown): value is { name: string } => isObject(value) && isText(value["name"]);
const isChangeRequest = (value: unknown): value is { id: string; summary: string } =>
  isObject(value) && isText(value["id"]) && isText(value["summary"]);
const isVersion = (value: unknown): value is VersionFile => isObject(value) && isText(value["sha256"]);
const isWebhook = (value: unknown): value is ServerWebhook => isObject(value) && isText(value["url"]);
const isGate = (value: unknown): value is { rules: GateRule[] } => isObject(value) && Array.isArray(value["rules"]);
const isAlerts = (value: unknown): value is { thresholds: number[] } =>
  isObject(value) && Array.isArray(value["thresholds"]);
const isPublicOffer = (value: unknown): value is { services: string[] } =>
  isObject(value) && Array.isArray(value["services"]);
const isImpact = (value: unknown): value is Impact =>
  isObject(value) && isObject(value["counts"]) && Array.isArray(value["groups"]) && isObject(value["gate"]);

const isReplay = (value: unknown): value is ReplayReport =>
  isObject(value) && isObject(value["totals"]) && Array.isArray(value["groups"]);
