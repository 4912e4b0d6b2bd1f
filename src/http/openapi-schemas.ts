import { z } from "zod";
import type { OPENAPI_VERSIONS } from "../wire/system.ts";

export type Json = Record<string, unknown>;

export type OpenApiVersion = (typeof OPENAPI_VERSIONS)[number];

const COMPONENTS = "#/components/schemas/";

/** Maps the schemas in a JSON value from the outside in. Examples stay as they are. */
function mapSchemas(value: unknown, change: (schema: Json) => Json): unknown {
  if (Array.isArray(value)) return value.map((each) => mapSchemas(each, change));
  if (typeof value !== "object" || value === null) return value;
  const mapped = (key: string, each: unknown) => {
    if (key === "example") return each;
    // Names of fields, which can be the same as words of the schema language.
    return key === "properties"
      ? mapValues(each as Json, (field) => mapSchemas(field, change))
      : mapSchemas(each, change);
  };
  return Object.fromEntries(Object.entries(change(value as Json)).map(([key, each]) => [key, mapped(key, each)]));
}

const mapValues = (object: Json, change: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));

const pointToComponents = (node: Json): Json =>
  typeof node["$ref"] === "string"
    ? { ...node, $ref: node["$ref"].replace(/^#\/(\$defs|definitions)\//, COMPONENTS) }
    : node;

/** Adds the width of numbers, which typed clients need, and removes expressions where the format is enough. */
function addFormats({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
  if (jsonSchema.type === "number") jsonSchema.format ??= "double";
  if (jsonSchema.type === "integer") jsonSchema.format ??= "int64";
}

/** Converts zod schemas to those of a document, and collects those with a name as its components. */
export function createSchemas(version: OpenApiVersion) {
  const components: Record<string, Json> = {};
  const target = version === "3.0" ? "openapi-3.0" : "draft-2020-12";
  const schemaOf = (schema: z.ZodType, io: "input" | "output"): Json => {
    const options = { target, io, unrepresentable: "any", override: addFormats } as const;
    const { $schema: _, $defs, definitions, ...rest } = z.toJSONSchema(schema, options);
    for (const [name, each] of Object.entries({ ...$defs, ...(definitions as Json | undefined) })) {
      const { id: _id, ...component } = each as Json;
      const made = mapSchemas(component, pointToComponents) as Json;
      const known = (components[name] ??= made);
      if (JSON.stringify(known) !== JSON.stringify(made)) throw new Error(`two schemas are named ${name}`);
    }
    return mapSchemas(rest, pointToComponents) as Json;
  };
  return { components, schemaOf };
}
export type Schemas = ReturnType<typeof createSchemas>;

const hasType = (schema: Json, type: string) => schema["type"] === type;
const fieldsOf = (schema: Json) => schema["properties"] as Record<string, Json> | undefined;
const isNull = (schema: Json) => JSON.stringify(schema["enum"]) === "[null]";

const withoutTwin = (fields: Json): Json => {
  const { _id, ...others } = fields;
  return "id" in fields ? others : fields;
};
/** Maps the objects of a JSON value from the inside out. */
const mapValue = (value: unknown, change: (object: Json) => Json): unknown =>
  JSON.parse(JSON.stringify(value), (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each) ? change(each as Json) : each,
  );

/**
 * Simplifies an OpenAPI 3.0 document to what generators make of it code that compiles and keeps working with newer servers:
 * - A union of objects becomes one object with the fields of all, required where every object requires them.
 * - A union of values of different types becomes a schema that accepts every value.
 * - A body has one media type: generators generate the first, and some send another.
 * - Answers may have more fields, and bodies have no regular expressions: the server checks them.
 * - `_id` is left out beside `id`, because both get the same name in code.
 */
export function forGenerators<Document extends { components: { schemas: Record<string, Json> } }>(
  document: Document,
): Document {
  const { schemas } = document.components;
  const resolve = (schema: Json): Json => {
    const { allOf, ...rest } = schema;
    if (Array.isArray(allOf)) return { ...resolve(allOf[0] as Json), ...rest };
    const name = typeof schema["$ref"] === "string" ? schema["$ref"].slice(COMPONENTS.length) : undefined;
    return simplify(name === undefined ? schema : (schemas[name] ?? {}));
  };
  const join = (alternatives: readonly Json[]): Json => {
    const distinct = [...new Map(alternatives.map((schema) => [JSON.stringify(schema), schema])).values()];
    if (distinct.length === 1) return distinct[0] ?? {};
    const values = distinct.filter((schema) => !isNull(schema)).map(resolve);
    const nullable = values.length < distinct.length || values.some((schema) => schema["nullable"] === true);
    return typedIfNullable({ ...(nullable ? { nullable } : {}), ...joinValues(values) });
  };
  const joinValues = (alternatives: readonly Json[]): Json => {
    if (alternatives.every((schema) => hasType(schema, "object") && fieldsOf(schema) !== undefined)) {
      return joinObjects(alternatives);
    }
    if (alternatives.every((schema) => hasType(schema, "array"))) {
      return { type: "array", items: join(alternatives.map((schema) => schema["items"] as Json)) };
    }
    if (alternatives.every((schema) => hasType(schema, "string"))) {
      const values = alternatives.flatMap((schema) => (schema["enum"] as unknown[] | undefined) ?? [undefined]);
      return { type: "string", ...(values.includes(undefined) ? {} : { enum: [...new Set(values)] }) };
    }
    const types = new Set(alternatives.map((schema) => schema["type"] ?? "any value"));
    return types.size === 1 ? { type: [...types][0] } : { description: `One of ${[...types].join(", ")}` };
  };
  const joinObjects = (alternatives: readonly Json[]): Json => {
    const fields = alternatives.map((schema) => fieldsOf(schema) ?? {});
    const names = [...new Set(fields.flatMap(Object.keys))];
    const required = names.filter((name) =>
      alternatives.every((schema) => (schema["required"] as string[] | undefined)?.includes(name)),
    );
    return {
      type: "object",
      properties: Object.fromEntries(
        names.map((name) => [name, join(fields.flatMap((each) => (each[name] === undefined ? [] : [each[name]])))]),
      ),
      ...(required.length === 0 ? {} : { required }),
    };
  };
  const simplify = (node: Json): Json => {
    const { anyOf, oneOf, pattern: _pattern, ...rest } = node;
    if (rest["additionalProperties"] === false) delete rest["additionalProperties"];
    // Generated Python refuses null beside an enum, and writes constants that are no texts as syntax errors.
    if (rest["nullable"] === true || !hasType(rest, "string")) delete rest["enum"];
    if (Array.isArray(rest["allOf"]) && Object.keys(rest).length === 1) return rest["allOf"][0] as Json;
    if ("example" in rest) rest["example"] = mapValue(rest["example"], withoutTwin);
    const fields = fieldsOf(rest);
    if (fields !== undefined) rest["properties"] = withoutTwin(fields);
    if (fields !== undefined && Array.isArray(rest["required"])) {
      rest["required"] = rest["required"].filter((name: string) => name in (rest["properties"] as Json));
    }
    const body = rest["requestBody"] as { content: Json } | undefined;
    if (body !== undefined) {
      rest["requestBody"] = { ...body, content: Object.fromEntries(Object.entries(body.content).slice(0, 1)) };
    }
    const union = anyOf ?? oneOf;
    return typedIfNullable(Array.isArray(union) ? { ...join(union as Json[]), ...rest } : rest);
  };
  /**
   * OpenAPI 3.0 knows `nullable` only beside a type. A schema without one accepts null anyway. A referenced schema accepts no
   * null, so it is written out.
   */
  const typedIfNullable = (schema: Json): Json => {
    const { nullable, ...rest } = schema;
    if (nullable !== true || "type" in rest) return schema;
    return "allOf" in rest ? simplify({ ...resolve(rest), nullable }) : rest;
  };
  return withoutUnused(mapSchemas(document, simplify) as Document);
}

/** Removes components to which nothing refers. */
function withoutUnused<Document extends { components: { schemas: Record<string, Json> } }>(
  document: Document,
): Document {
  const { schemas } = document.components;
  const text = JSON.stringify(document);
  const used = Object.entries(schemas).filter(([name]) => text.includes(`"${COMPONENTS}${name}"`));
  const left = { ...document, components: { ...document.components, schemas: Object.fromEntries(used) } };
  return used.length === Object.keys(schemas).length ? left : withoutUnused(left);
}
