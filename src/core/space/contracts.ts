import { addPeriod } from "../period.ts";
import { type CompiledPricing, findAddOn } from "../pricing/compile.ts";
import type { Period } from "../pricing/model.ts";
import { isDotSegment, serviceKey, versionKey } from "../pricing/names.ts";
import { checkSubscription, grantedLimits } from "../pricing/subscription.ts";
import { billingPeriodOf } from "./billing-period.ts";
import type { CatalogPlanner, ContractableService, PlannedVersion } from "./catalog.ts";
import {
  dateOf,
  entriesOf,
  isRecord,
  isTooLong,
  itemsOf,
  shown,
  type SpaceDocument,
  textOf,
  TOO_LONG,
} from "./documents.ts";
import type { PlannedContract, PlannedHistory, PlannedLevel } from "./planned-contract.ts";
import type { Findings, Subject } from "./report.ts";
import { DETAILS, levelName, untrackedLevelName } from "./reported.ts";

interface Contracted extends ContractableService {
  key: string;
  version: PlannedVersion;
  compiled: CompiledPricing;
}

/** Plans contracts, one at a time. Source: contract files-and-migration §5. */
export class ContractPlanner {
  private readonly findings: Findings;
  private readonly catalog: CatalogPlanner;
  private readonly organizations: ReadonlyMap<string, unknown>;
  private readonly now: Date;
  private readonly seen = new Set<string>();

  constructor(given: {
    findings: Findings;
    catalog: CatalogPlanner;
    organizations: ReadonlyMap<string, unknown>;
    now: Date;
  }) {
    this.findings = given.findings;
    this.catalog = given.catalog;
    this.organizations = given.organizations;
    this.now = given.now;
  }

  plan(document: SpaceDocument): PlannedContract | undefined {
    const contact = isRecord(document["userContact"]) ? document["userContact"] : {};
    const userId = textOf(contact["userId"]);
    const username = textOf(contact["username"]);
    const id = this.findings.open("contracts", "contract", document, userId ?? "");
    if (id === undefined) return undefined;
    const subject: Subject = { kind: "contract", id, name: userId ?? "" };
    if (userId === undefined || username === undefined || this.seen.has(id)) {
      const isTaken = this.seen.has(id);
      this.findings.leave("document-invalid", subject, isTaken ? "Its id is taken" : "It has no userId or no username");
      return undefined;
    }
    if (userId === "" || isDotSegment(userId)) {
      this.findings.leave("document-invalid", subject, "Its userId is empty, . or .., which no address can carry");
      return undefined;
    }
    if (isTooLong(userId) || isTooLong(username)) {
      const field = isTooLong(userId) ? "userId" : "username";
      this.findings.leave("document-invalid", subject, `Its ${field} is ${TOO_LONG}`);
      return undefined;
    }
    const organizationId = textOf(document["organizationId"]) ?? "";
    if (!this.organizations.has(organizationId)) {
      this.findings.leave("organization-missing", subject, `There is no organization ${organizationId}`);
      return undefined;
    }
    const userKey = `${organizationId} ${userId}`;
    if (this.seen.has(userKey)) {
      this.findings.leave("duplicate-name", subject, "Another contract has this userId");
      return undefined;
    }
    this.seen.add(id).add(userKey);
    const contracted = this.contractedOf(document["contractedServices"], organizationId, subject);
    const services = this.servicesOf(document, contracted, subject);
    const levels = this.levelsOf(document["usageLevels"], contracted, services, subject);
    const history = this.historyOf(document["history"], organizationId, subject);
    this.findings.carried.contracts += 1;
    this.findings.carried.levels += levels.length;
    this.findings.carried.history += history.length;
    const optional = (field: string, value: unknown) => {
      if (value !== undefined && value !== null && typeof value !== "string") {
        this.findings.leave("document-invalid", subject, `Its ${field} is ${shown(value)}, and no text`);
      }
      const text = textOf(value) ?? null;
      if (text === null || !isTooLong(text)) return text;
      this.findings.leave("document-invalid", subject, `Its ${field} is ${TOO_LONG}`);
      return null;
    };
    return {
      id,
      organizationId,
      contact: {
        userId,
        username,
        firstName: optional("firstName", contact["firstName"]),
        lastName: optional("lastName", contact["lastName"]),
        email: optional("email", contact["email"]),
        phone: optional("phone", contact["phone"]),
        groupId: optional("groupId", document["groupId"]),
      },
      billing: billingPeriodOf(document["billingPeriod"], subject, this.findings),
      services,
      levels,
      history,
    };
  }

  private contractedOf(value: unknown, organizationId: string, { id, name }: Subject): Contracted[] {
    const result = new Map<string, Contracted>();
    for (const [service, version] of this.entriesIn(value, "contractedServices", { kind: "contract", id, name })) {
      const key = serviceKey(service);
      const subject: Subject = { kind: "contract", id, name };
      const found = this.catalog.find(organizationId, key);
      if (found === undefined || result.has(key)) {
        this.findings.leave("contracted-service-missing", subject, DETAILS.noService(service));
      } else if (found.service.disabled) {
        this.findings.leave("contracted-service-disabled", subject, DETAILS.disabledService(service));
      } else {
        const text = shown(version);
        const known = isScalar(version) ? found.versions.get(versionKey(text)) : undefined;
        if (known === undefined) {
          this.findings.leave("contracted-version-missing", subject, DETAILS.noVersion(service, text));
        } else result.set(key, { ...found, ...known, key });
      }
    }
    return [...result.values()];
  }

  /** Entries of a map; none for any other value, which is left. */
  private entriesIn(value: unknown, field: string, subject: Subject): [string, unknown][] {
    if (value !== undefined && value !== null && !isRecord(value)) {
      this.findings.leave("document-invalid", subject, `Its ${field} is ${shown(value)}, and no map`);
    }
    return entriesOf(value);
  }

  private servicesOf(document: SpaceDocument, contracted: readonly Contracted[], subject: Subject) {
    const named = new Set(entriesOf(document["contractedServices"]).map(([name]) => serviceKey(name)));
    const plans = this.byService(document["subscriptionPlans"], "subscriptionPlans", named, subject);
    const addOns = this.byService(document["subscriptionAddOns"], "subscriptionAddOns", named, subject);
    return contracted.map(({ key, service, version, compiled }) => {
      const givenPlan = plans.get(key);
      if (givenPlan !== undefined && givenPlan !== null && typeof givenPlan !== "string") {
        this.findings.leave("document-invalid", subject, `Its plan of ${key} is ${shown(givenPlan)}, and no text`);
      }
      const plan = textOf(givenPlan) ?? null;
      const given = addOns.get(key);
      const chosen = given === undefined ? null : this.addOnsOf(given, key, compiled, subject);
      const verdict = checkSubscription(compiled, {
        serviceName: key,
        version: version.version,
        ...(plan === null ? {} : { plan }),
        ...(chosen === null ? {} : { addOns: chosen }),
      });
      if (!verdict.ok) this.findings.change("subscription-invalid", subject, `${verdict.rule}: ${verdict.message}`);
      return { serviceId: service.id, pricingId: version.id, plan, addOns: chosen };
    });
  }

  /** Entries by service. Those of services that the contract does not have are left. */
  private byService(value: unknown, field: string, named: ReadonlySet<string>, subject: Subject): Map<string, unknown> {
    const result = new Map<string, unknown>();
    for (const [service, each] of this.entriesIn(value, field, subject)) {
      const key = serviceKey(service);
      result.set(key, each);
      if (named.has(key)) continue;
      this.findings.leave("contracted-service-missing", subject, DETAILS.notContracted(field, service));
    }
    return result;
  }

  private addOnsOf(value: unknown, service: string, compiled: CompiledPricing, subject: Subject) {
    const result: Record<string, number> = {};
    for (const [name, quantity] of this.entriesIn(value, `add-ons of ${service}`, subject)) {
      const addOn = findAddOn(compiled, name);
      if (addOn === undefined || typeof quantity !== "number" || !Number.isFinite(quantity)) {
        const detail = addOn === undefined ? DETAILS.noAddOn : DETAILS.noQuantity;
        this.findings.leave("add-on-unknown", subject, detail(service, name));
      } else result[addOn.name] = quantity;
    }
    return result;
  }

  private levelsOf(
    value: unknown,
    contracted: readonly Contracted[],
    subscribed: PlannedContract["services"],
    { id, name }: Subject,
  ): PlannedLevel[] {
    const stored = new Map<string, unknown>();
    for (const [service, limits] of entriesOf(value)) {
      for (const [limit, level] of entriesOf(limits))
        stored.set(untrackedLevelName(limit, serviceKey(service), name), level);
    }
    const levels = contracted.flatMap(({ key, service, compiled }, index) =>
      grantedLimits(compiled, subscribed[index] ?? { plan: null, addOns: null }).map((limit, position) => {
        const place = untrackedLevelName(limit.name, key, name);
        const level = stored.get(place);
        stored.delete(place);
        const subject: Subject = { kind: "level", id, name: levelName(limit.name, key, name) };
        const values = this.levelOf(level, limit.period, subject);
        const { name: limitName, period = null, value: limitValue, countsMembers = false } = limit;
        const planned = { serviceId: service.id, limitName, position, period, limitValue, countsMembers, ...values };
        if (!countsMembers || values.consumed === 0) return planned;
        this.findings.change("level-invalid", subject, `${values.consumed} becomes 0: SPACE has no members to count`);
        return { ...planned, consumed: 0 };
      }),
    );
    for (const place of stored.keys()) {
      const detail = "The contract's versions have no such limit with usage";
      this.findings.leave("level-untracked", { kind: "level", id, name: place }, detail);
    }
    return levels;
  }

  private levelOf(value: unknown, period: Period | undefined, subject: Subject) {
    const next = period === undefined ? null : { anchor: this.now, resetAt: addPeriod(this.now, period) };
    if (!isRecord(value)) {
      this.findings.change("level-created", subject, "SPACE has no level: it starts at 0");
      return { consumed: 0, anchor: null, resetAt: null, ...next };
    }
    const { consumed: given, resetTimeStamp } = value;
    const isValid = typeof given === "number" && Number.isFinite(given) && given >= 0;
    if (!isValid) this.findings.change("level-invalid", subject, `${shown(given)} becomes 0`);
    const consumed = isValid ? given : 0;
    const reset = dateOf(resetTimeStamp);
    if (next === null) {
      if (resetTimeStamp !== undefined && resetTimeStamp !== null) {
        this.findings.change("reset-dropped", subject, "The limit never resets");
      }
      return { consumed, anchor: null, resetAt: null };
    }
    if (reset !== undefined) return { consumed, anchor: reset, resetAt: reset };
    this.findings.change("reset-set", subject, `It has no reset: it resets at ${next.resetAt.toISOString()}`);
    return { consumed, ...next };
  }

  private historyOf(value: unknown, organizationId: string, { id, name }: Subject): PlannedHistory[] {
    return itemsOf(value).flatMap((each, position) => {
      const entry = isRecord(each) ? each : {};
      const startDate = dateOf(entry["startDate"]);
      const endDate = dateOf(entry["endDate"]);
      const subject: Subject = { kind: "history", id, name: `history entry ${position + 1} of ${name}` };
      if (startDate === undefined || endDate === undefined) {
        this.findings.leave("document-invalid", subject, "It has no start or no end");
        return [];
      }
      const texts = (field: string): [string, string][] =>
        this.entriesIn(entry[field], field, subject).flatMap(([key, item]) => {
          if (typeof item === "string") return [[key, item] as const];
          this.findings.leave("document-invalid", subject, `Its ${field} has ${shown(item)} for ${key}`);
          return [];
        });
      const contractedServices = Object.fromEntries(
        texts("contractedServices").map(([service, version]) => {
          const key = versionKey(version);
          return [service, this.catalog.find(organizationId, service)?.versions.get(key)?.version.version ?? key];
        }),
      );
      const subscriptionPlans = Object.fromEntries(texts("subscriptionPlans"));
      const subscriptionAddOns = Object.fromEntries(
        this.entriesIn(entry["subscriptionAddOns"], "subscriptionAddOns", subject).map(([service, addOns]) => [
          service,
          Object.fromEntries(
            this.entriesIn(addOns, `add-ons of ${service}`, subject).flatMap(([addOn, quantity]) => {
              if (typeof quantity === "number" && Number.isFinite(quantity)) return [[addOn, quantity] as const];
              this.findings.leave("add-on-unknown", subject, DETAILS.noQuantity(service, addOn));
              return [];
            }),
          ),
        ]),
      );
      return [{ startDate, endDate, contractedServices, subscriptionPlans, subscriptionAddOns }];
    });
  }
}

/** True for a value that a text can be made of. */
const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean";
