import { serviceKey, versionKey } from "../pricing/names.ts";
import { type Collection, eachUnknownField, entriesOf, type SpaceDocument } from "./documents.ts";
import type { ChangedCode, Item, LeftCode } from "./report.ts";

/*
 * Names and details of the import's report, and which fields of an answer differ because of them. An item explains only the
 * fields that it is about.
 * Source: contract files-and-migration §5, §6.
 */

export const levelName = (limit: string, service: string, user: string) => `${limit} of ${service} for ${user}`;
export const untrackedLevelName = (limit: string, service: string, user: string) => `${service} ${limit} for ${user}`;
export const versionName = (service: string, version: string) => `${service} ${version}`;

/** Details of items about a contract. */
export const DETAILS = {
  noService: (service: string) => `There is no service ${service}`,
  disabledService: (service: string) => `The service ${service} is disabled`,
  noVersion: (service: string, version: string) => `${service} has no version ${version}`,
  notContracted: (field: string, service: string) => `${field} names ${service}, which is not contracted`,
  noAddOn: (service: string, addOn: string) => `${service} has no add-on ${addOn}`,
  noQuantity: (service: string, addOn: string) => `${service} has an add-on ${addOn} without a quantity`,
  repaired: (field: string, value: string) => `${field} ${value}`,
} as const;

/** Separates what was repaired in a billing period. */
export const REPAIRS = ", ";

const CONTRACT_LEFT: readonly LeftCode[] = ["document-invalid", "duplicate-name", "organization-missing"];
const SERVICE_LEFT: readonly LeftCode[] = [...CONTRACT_LEFT, "service-empty"];
const VERSION_LEFT: readonly LeftCode[] = [
  ...SERVICE_LEFT,
  "version-missing",
  "version-not-fetched",
  "version-unreadable",
  "version-duplicate",
];
const includes = (codes: readonly string[], { code }: Item) => codes.includes(code);

/** True if the report says that the service was left behind. */
export const isServiceLeft = (items: readonly Item[], service: string): boolean =>
  items.some((item) => item.kind === "service" && item.name === service && includes(SERVICE_LEFT, item));

/** True if the report says that the version was left behind. */
export const isVersionLeft = (items: readonly Item[], service: string, version: string): boolean =>
  items.some(
    (item) =>
      item.kind === "version" &&
      versionKey(item.name) === versionKey(versionName(service, version)) &&
      includes(VERSION_LEFT, item),
  );

/** True if the report says that the version is at another public address. */
export const hasOtherAddress = (items: readonly Item[], service: string, version: string): boolean =>
  items.some(
    ({ code, name }) => code === "address-taken" && versionKey(name) === versionKey(versionName(service, version)),
  );

/** True if the report names this field of a collection's documents as one that SPACE does not write. */
export function isUnknownField(items: readonly Item[], collection: Collection, path: readonly string[]): boolean {
  const document = path.reduceRight<unknown>((value, key) => ({ [key]: value }), null) as SpaceDocument;
  let isNamed = false;
  eachUnknownField(collection, document, (name) => {
    isNamed ||= items.some((item) => item.code === "field-unknown" && item.name === name);
  });
  return isNamed;
}

/** The items of the report about one contract. */
export class ReportedContract {
  private readonly items: readonly Item[];
  private readonly user: string;
  private readonly old: SpaceDocument;

  /** `old` is the contract as SPACE answers it. */
  constructor(items: readonly Item[], { id, user, old }: { id: unknown; user: string; old: SpaceDocument }) {
    this.items = items.filter((item) => item.id !== "" && item.id === id);
    this.user = user;
    this.old = old;
  }

  /** True if a difference at this path of the contract is reported. `value` is what SPACE has there. */
  hasField(path: readonly string[], value: unknown): boolean {
    const [part = "", service = "", name = "", field = ""] = path;
    if (part === "history") return this.items.some(({ kind }) => kind === "history");
    if (part === "billingPeriod") return this.isRepaired(service);
    if (service === "") return false;
    if (this.isServiceLost(service)) return true;
    const entries = name === "" ? entriesOf(value).map(([each]) => each) : [name];
    if (entries.length === 0) return false;
    if (part === "subscriptionAddOns") return entries.every((addOn) => this.isAddOnLeft(service, addOn));
    return part === "usageLevels" && entries.every((limit) => this.isLevel(service, limit, field));
  }

  /** True if results of this feature, which reads these levels, can differ. Levels are `<service>-<limit>`. */
  hasResult(feature: string, levels: readonly string[]): boolean {
    const isOf = ([service]: readonly [string, ...unknown[]]) => feature.startsWith(`${serviceKey(service)}-`);
    return (
      this.has("subscription-invalid") ||
      this.services().some((service) => isOf([service]) && this.isServiceLost(service)) ||
      entriesOf(this.old["subscriptionAddOns"]).some(
        ([service, addOns]) => isOf([service]) && entriesOf(addOns).some(([name]) => this.isAddOnLeft(service, name)),
      ) ||
      levels.some((level) => this.hasBalance(level, ["level-created", "level-invalid"]))
    );
  }

  /** True if the balance of this level, `<service>-<limit>`, can differ. */
  hasBalance(level: string, codes: readonly string[] = ["level-created", "level-invalid", "level-untracked"]): boolean {
    return this.items.some(
      (item) =>
        includes(codes, item) &&
        this.services().some((service) => {
          const key = serviceKey(service);
          return level.startsWith(`${key}-`) && this.isNamed(item, key, level.slice(key.length + 1));
        }),
    );
  }

  /** True if a call about the contract can be answered with another status. */
  hasStatus(call: string): boolean {
    if (this.items.some((item) => item.kind === "contract" && includes(CONTRACT_LEFT, item))) return true;
    if (call === "contract") return false;
    return (
      this.has("subscription-invalid") ||
      this.has("billing-repaired") ||
      this.services().some((service) => this.isServiceLost(service))
    );
  }

  private has(code: ChangedCode): boolean {
    return this.items.some((item) => item.code === code);
  }

  /** Services that SPACE's contract names anywhere. */
  private services(): string[] {
    const maps = ["contractedServices", "subscriptionPlans", "subscriptionAddOns", "usageLevels"];
    return [...new Set(maps.flatMap((field) => entriesOf(this.old[field]).map(([service]) => service)))];
  }

  private isServiceLost(service: string): boolean {
    const details: readonly string[] = [
      DETAILS.noService(service),
      DETAILS.disabledService(service),
      DETAILS.notContracted("subscriptionPlans", service),
      DETAILS.notContracted("subscriptionAddOns", service),
    ];
    const noVersion = DETAILS.noVersion(service, "");
    return this.items.some(
      ({ kind, detail }) => kind === "contract" && (details.includes(detail) || detail.startsWith(noVersion)),
    );
  }

  private isAddOnLeft(service: string, addOn: string): boolean {
    const key = serviceKey(service);
    const details: readonly string[] = [DETAILS.noAddOn(key, addOn), DETAILS.noQuantity(key, addOn)];
    return this.items.some(({ code, detail }) => code === "add-on-unknown" && details.includes(detail));
  }

  /** The end follows from the length of a period. */
  private isRepaired(field: string): boolean {
    const repaired = this.items.flatMap(({ code, detail }) =>
      code === "billing-repaired" ? detail.split(REPAIRS) : [],
    );
    const isOf = (name: string) => repaired.some((each) => each.startsWith(DETAILS.repaired(name, "")));
    return isOf(field) || (field === "endDate" && (isOf("renewalDays") || isOf("startDate")));
  }

  private isNamed({ name }: Item, service: string, limit: string): boolean {
    return name === levelName(limit, service, this.user) || name === untrackedLevelName(limit, service, this.user);
  }

  /** `field` is empty for the whole level. */
  private isLevel(service: string, limit: string, field: string): boolean {
    const codes = {
      "": ["level-created", "level-untracked"],
      consumed: ["level-created", "level-invalid"],
      resetTimeStamp: ["level-created", "reset-set", "reset-dropped"],
    }[field];
    return this.items.some(
      (item) => (codes ?? []).includes(item.code) && this.isNamed(item, serviceKey(service), limit),
    );
  }
}
