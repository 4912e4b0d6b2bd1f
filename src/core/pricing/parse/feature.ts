import { explainRefusal, parseExpression } from "../language/expression.ts";
import { AUTOMATION_TYPES, FEATURE_TYPES, INTEGRATION_TYPES, RENDER_MODES, VALUE_TYPES } from "../model.ts";
import type { Feature, FeatureType, FeatureValue, RenderMode, ValueType } from "../model.ts";
import { isWebAddress, nameFault, oneOf, readDescription, readValue } from "./value.ts";
import type { NamedItem } from "./value.ts";
import type { ValueShape } from "./value.ts";
import type { Section } from "./problems.ts";
import { isList, shown } from "./tree.ts";

const TYPES_IN_WORDS = "INFORMATION, INTEGRATION, DOMAIN, AUTOMATION, MANAGEMENT, GUARANTEE, SUPPORT or PAYMENT";
const INTEGRATIONS_IN_WORDS = "API, EXTENSION, IDENTITY_PROVIDER, WEB_SAAS, MARKETPLACE or EXTERNAL_DEVICE";
const AUTOMATIONS_IN_WORDS = "BOT, FILTERING, TRACKING, or TASK_AUTOMATION";

/**
 * Reads `valueType`; undefined after reporting a problem. Limits get the messages of a feature. Source: pricing2yaml.md
 * §4.
 */
export function readValueType(section: Section): ValueType | undefined {
  const value = section.value("valueType");
  if (typeof value === "string") {
    const known = oneOf(VALUE_TYPES, value);
    if (known !== undefined) return known;
    section.fail(
      "valueType",
      `The valueType field of a feature must be one of NUMERIC, BOOLEAN, or TEXT. Received: ${value.trim().toUpperCase()}`,
    );
  } else if (value === null) {
    section.fail(
      "valueType",
      "The valueType field of a feature must not be null or undefined. Please ensure that the valueType field is present and it's value correspond to either BOOLEAN, NUMERIC or TEXT",
    );
  } else {
    section.fail(
      "valueType",
      `The valueType field of a feature must be a string, and its value must be either BOOLEAN, NUMERIC or TEXT. Received: ${shown(value)} `,
    );
  }
  return undefined;
}

/** Reads `defaultValue` (required) and `value` of a feature or limit. */
export function readValues(section: Section, shape: ValueShape): { defaultValue: FeatureValue; value?: FeatureValue } {
  let defaultValue: FeatureValue = false;
  if (section.value("defaultValue") !== null) defaultValue = readValue(section, "defaultValue", shape);
  else
    section.fail(
      "defaultValue",
      `The defaultValue field of a ${shape.owner} must not be null or undefined. Please ensure that the defaultValue field is present and its defaultValue type correspond to the declared valueType`,
    );
  return section.value("value") === null
    ? { defaultValue }
    : { defaultValue, value: readValue(section, "value", shape) };
}

/** Reads `render` of a feature or limit. Source: pricing2yaml.md §4. */
export function readRender(section: Section): RenderMode {
  const value = section.value("render");
  if (value === null) return "AUTO";
  const known = typeof value === "string" ? oneOf(RENDER_MODES, value) : undefined;
  if (known === undefined)
    section.fail(
      "render",
      `The render field of a feature or usage limit must be one of AUTO, ENABLED or DISABLED. Received: ${shown(value).toUpperCase()}`,
    );
  return known ?? "AUTO";
}

function readExpression(section: Section, field: "expression" | "serverExpression"): string | undefined {
  const value = section.value(field);
  if (value === null) return undefined;
  if (typeof value === "boolean") return String(value);
  if (typeof value !== "string") {
    section.fail(field, `The ${field} field of a feature must be a string. Received: ${shown(value)}`);
  } else if (value.trim() === "") {
    section.fail(
      field,
      `The ${field} field of a feature must not be empty. If you don't want to declare an expression for this feature, either use null or undefined`,
    );
  } else {
    const result = parseExpression(value);
    if (result.ok) return value;
    const entry = section.map.entries.get(field);
    const start = entry?.valueAt ?? section.at;
    const at = entry?.verbatim === true ? start + result.refusal.offset : start;
    section.failAt(field, at, explainRefusal(field, result.refusal));
  }
  return undefined;
}

function readType(section: Section): FeatureType | undefined {
  const value = section.value("type");
  if (typeof value === "string") {
    const known = oneOf(FEATURE_TYPES, value);
    if (known !== undefined) return known;
    section.fail(
      "type",
      `The type field of a feature must be one of ${TYPES_IN_WORDS}. Received: ${value.trim().toUpperCase()}`,
    );
  } else if (value === null) {
    section.fail(
      "type",
      `The type field of a feature must not be null or undefined. Please ensure that the type field is present and it's value correspond to either ${TYPES_IN_WORDS}`,
    );
  } else {
    section.fail(
      "type",
      `The type field of a feature must be a string, and its value must be either ${TYPES_IN_WORDS}. Received: ${shown(value)} `,
    );
  }
  return undefined;
}

interface SubtypeRule<Word extends string> {
  readonly field: "integrationType" | "automationType";
  /** The feature type that requires this field. */
  readonly neededBy: FeatureType;
  readonly allowed: readonly Word[];
  readonly inWords: string;
  /** End of the message for a missing field. */
  readonly missing: string;
  readonly typeName: string;
}

const INTEGRATION_RULE: SubtypeRule<(typeof INTEGRATION_TYPES)[number]> = {
  field: "integrationType",
  neededBy: "INTEGRATION",
  allowed: INTEGRATION_TYPES,
  inWords: INTEGRATIONS_IN_WORDS,
  missing: "it's value correspond to either",
  typeName: "an IntegrationType",
};
const AUTOMATION_RULE: SubtypeRule<(typeof AUTOMATION_TYPES)[number]> = {
  field: "automationType",
  neededBy: "AUTOMATION",
  allowed: AUTOMATION_TYPES,
  inWords: AUTOMATIONS_IN_WORDS,
  missing: "its value corresponds to either",
  typeName: "an AutomationType",
};

function readSubtype<Word extends string>(
  section: Section,
  type: FeatureType | undefined,
  rule: SubtypeRule<Word>,
): Word | undefined {
  const { field } = rule;
  const value = section.value(field);
  if (value === null) {
    if (type === rule.neededBy)
      section.fail(
        field,
        `The ${field} field of a feature of type ${type} must not be null or undefined. Please ensure that the ${field} field is present and ${rule.missing} ${rule.inWords}`,
      );
    return undefined;
  }
  if (typeof value !== "string") {
    const choices = rule.allowed.map((word) => `'${word}'`).join(" | ");
    section.fail(
      field,
      `The ${field} field of a feature must be ${rule.typeName} (${choices}). Received: ${shown(value)}`,
    );
    return undefined;
  }
  const known = rule.allowed.find((word) => word === value);
  if (known === undefined)
    section.fail(field, `The ${field} field of a feature must be one of ${rule.inWords}. Received: ${value}`);
  return known;
}

function readPricingUrls(section: Section): readonly string[] | undefined {
  const value = section.value("pricingUrls");
  if (value === null) return undefined;
  if (!isList(value) || value.items.some((item) => typeof item.value !== "string")) {
    section.fail("pricingUrls", "The pricingUrls field must be an array of strings.");
    return undefined;
  }
  return value.items.map((item, index) => {
    const address = shown(item.value);
    if (!isWebAddress(address))
      section.failAt(
        `pricingUrls.${index}`,
        item.at,
        `The pricingUrls field must contain only valid URLs. Invalid URL: ${address}`,
      );
    return address;
  });
}

function readDocUrl(section: Section): string | undefined {
  const value = section.value("docUrl");
  if (value === null) return undefined;
  if (typeof value !== "string") section.fail("docUrl", "The docUrl field must be a string.");
  else if (!isWebAddress(value))
    section.fail("docUrl", `The docUrl field must be a valid URL with the http or https protocol. Received: ${value}`);
  else return value;
  return undefined;
}

function readTag(section: Section, tags: ReadonlySet<string> | undefined): string | undefined {
  const value = section.value("tag");
  if (value === null) return undefined;
  const tag = shown(value);
  // If the list of tags is invalid, report only that list and not the tag of every feature.
  if (tags === undefined || (typeof value === "string" && tags.has(tag))) return tag;
  section.fail("tag", `Error validating tag: Feature tag '${tag}' must be one of the values defined in 'tags'`);
  return undefined;
}

/** Returns true if a mapping has the fields of a feature or limit. */
export function hasValueFields(section: Section): boolean {
  return ["type", "valueType", "defaultValue"].every((key) => section.map.entries.has(key));
}

/**
 * Reads one feature, with the checks in the order of the reference implementation. Reports problems; returns undefined
 * or a placeholder then. `tags` are the declared tags, undefined if their list is invalid.
 */
export function readFeature(
  section: Section,
  { name, given }: NamedItem,
  tags: ReadonlySet<string> | undefined,
): Feature | undefined {
  const fault = hasValueFields(section) ? nameFault("Feature", given) : "The feature must be an object of type Feature";
  if (fault !== undefined) {
    section.fail("", fault);
    return undefined;
  }
  const description = readDescription(section);
  const valueType = readValueType(section);
  // Compare before normalizing case: the rule for payment methods is case-sensitive.
  const payment = valueType === "TEXT" && section.value("type") === "PAYMENT";
  const values =
    valueType === undefined ? { defaultValue: false } : readValues(section, { owner: "feature", valueType, payment });
  const expression = readExpression(section, "expression");
  const serverExpression = readExpression(section, "serverExpression");
  const type = readType(section);
  const integrationType = readSubtype(section, type, INTEGRATION_RULE);
  // Addresses are checked wherever they are written, and kept where they apply.
  const givenUrls = readPricingUrls(section);
  const givenUrl = readDocUrl(section);
  const pricingUrls = type === "INTEGRATION" && integrationType === "WEB_SAAS" ? givenUrls : undefined;
  const docUrl = type === "GUARANTEE" ? givenUrl : undefined;
  const automationType = readSubtype(section, type, AUTOMATION_RULE);
  const render = readRender(section);
  const tag = readTag(section, tags);
  return {
    name,
    ...description,
    valueType: valueType ?? "BOOLEAN",
    ...values,
    type: type ?? "DOMAIN",
    ...(integrationType === undefined ? {} : { integrationType }),
    ...(pricingUrls === undefined ? {} : { pricingUrls }),
    ...(automationType === undefined ? {} : { automationType }),
    ...(docUrl === undefined ? {} : { docUrl }),
    ...(expression === undefined ? {} : { expression }),
    ...(serverExpression === undefined ? {} : { serverExpression }),
    render,
    ...(tag === undefined ? {} : { tag }),
  };
}
