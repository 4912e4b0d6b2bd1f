/*
 * Documents of a SPACE database as plain data: object ids are texts of 24 hex digits, dates are Dates, numbers are numbers.
 * Source: contract files-and-migration §4.
 */

export type SpaceDocument = Readonly<Record<string, unknown>>;

export const COLLECTIONS = ["users", "organizations", "services", "pricings", "contracts", "analyticsdays"] as const;
export type Collection = (typeof COLLECTIONS)[number];

/** Fields that a value may have. `fields`: exactly these. `entries`: a map by name. `items`: a list. */
type Shape =
  | "any"
  | { readonly fields: Readonly<Record<string, Shape>> }
  | { readonly entries: Shape }
  | { readonly items: Shape };

const any = "any";
const fieldsOf = (names: string, nested: Readonly<Record<string, Shape>> = {}): Shape => ({
  fields: { ...Object.fromEntries(names.split(" ").map((name) => [name, any] as const)), ...nested },
});

const LIST: Shape = { items: any };
const LOCATORS: Shape = { entries: fieldsOf("id url") };
const SUBSCRIPTION = "contractedServices subscriptionPlans subscriptionAddOns";

/** Every field that SPACE 1.0 to 1.2.5 writes. `_id` and `__v` are known at every level. */
const SHAPES: Readonly<Record<Collection, Shape>> = {
  users: fieldsOf("username password apiKey role createdAt updatedAt"),
  organizations: fieldsOf("name owner default", {
    apiKeys: { items: fieldsOf("key scope") },
    members: { items: fieldsOf("username role") },
  }),
  services: fieldsOf("name organizationId disabled", { activePricings: LOCATORS, archivedPricings: LOCATORS }),
  pricings: fieldsOf("_serviceName _organizationId version yamlPath currency createdAt", {
    features: {
      entries: fieldsOf(
        "name description valueType defaultValue value type integrationType pricingUrls automationType docUrl expression serverExpression render tag",
      ),
    },
    usageLimits: {
      entries: fieldsOf("name description valueType defaultValue value type trackable linkedFeatures", {
        period: fieldsOf("value unit"),
      }),
    },
    plans: { entries: fieldsOf("name description price private features usageLimits") },
    addOns: {
      entries: fieldsOf(
        "name description private price availableFor dependsOn excludes features usageLimits usageLimitsExtensions",
        {
          subscriptionConstraints: fieldsOf("minQuantity maxQuantity quantityStep"),
          availableFor: LIST,
          dependsOn: LIST,
          excludes: LIST,
        },
      ),
    },
  }),
  contracts: fieldsOf(`organizationId groupId ${SUBSCRIPTION}`, {
    userContact: fieldsOf("userId username firstName lastName email phone"),
    billingPeriod: fieldsOf("startDate endDate autoRenew renewalDays"),
    usageLevels: { entries: { entries: fieldsOf("consumed resetTimeStamp") } },
    history: { items: fieldsOf(`startDate endDate ${SUBSCRIPTION}`) },
  }),
  analyticsdays: fieldsOf("date apiCalls evaluations"),
};

/**
 * Calls `note` with the path of every field that SPACE does not write, such as `contracts.notes`. A field that is no map or
 * list where SPACE writes one counts as such, too.
 */
export function eachUnknownField(collection: Collection, document: SpaceDocument, note: (path: string) => void): void {
  walk(document, SHAPES[collection], collection, note);
}

function walk(value: unknown, shape: Shape, path: string, note: (path: string) => void): void {
  if (shape === "any" || value === null || value === undefined) return;
  if ("items" in shape) {
    if (!Array.isArray(value)) return note(`${path}, which is no list`);
    for (const item of value) walk(item, shape.items, path, note);
    return;
  }
  if (!isRecord(value)) return note(`${path}, which is no map`);
  for (const [key, each] of Object.entries(value)) {
    if ("entries" in shape) walk(each, shape.entries, path, note);
    else if (Object.hasOwn(shape.fields, key)) walk(each, shape.fields[key] ?? any, `${path}.${key}`, note);
    else if (key !== "_id" && key !== "__v") note(`${path}.${key}`);
  }
}

/** True for a map, and not for a list or a date. */
export function isRecord(value: unknown): value is SpaceDocument {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** Entries of a map; none for any other value. */
export const entriesOf = (value: unknown): [string, unknown][] => (isRecord(value) ? Object.entries(value) : []);

/** Items of a list; none for any other value. */
export const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** A text that is not empty; undefined for any other value. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Shows any value in a report. Maps of a dump have no text of their own: `String` throws for them. */
export function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (value instanceof Date) return "a date";
  return isRecord(value) ? "a map" : String(value);
}

/** A document's id; undefined unless it is an object id. */
export const idOf = (document: SpaceDocument): string | undefined => {
  const id = document["_id"];
  return typeof id === "string" && /^[0-9a-f]{24}$/.test(id) ? id : undefined;
};

/** `Date.UTC` reads years below 100 as those of the last century, and so does the database's driver. */
const YEAR_100 = Date.UTC(100, 0, 1);
const YEAR_10000 = Date.UTC(10_000, 0, 1);

/** A date, also written as ISO text; undefined for any other value and outside of the years 100 to 9999. */
export function dateOf(value: unknown): Date | undefined {
  const date = typeof value === "string" ? new Date(value) : value;
  if (!(date instanceof Date)) return undefined;
  const time = date.getTime();
  return time >= YEAR_100 && time < YEAR_10000 ? date : undefined;
}

/** When MongoDB made this object id, to the second. */
export const createdWith = (id: string): Date => new Date(Number.parseInt(id.slice(0, 8), 16) * 1000);

/** Longest text that a row of an index holds, whatever its characters: API callers have the same bound. */
const MAX_INDEXED = 512;
export const isTooLong = (text: string): boolean => text.length > MAX_INDEXED;
export const TOO_LONG = `longer than ${MAX_INDEXED} characters`;
