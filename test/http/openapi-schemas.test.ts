import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../src/http/openapi.ts";
import { forGenerators, type Json } from "../../src/http/openapi-schemas.ts";

/** Simplifies one schema that a component has, beside other components. */
function simplified(schema: Json, others: Record<string, Json> = {}): Json {
  const uses = Object.keys(others).map((name) => ({ $ref: `#/components/schemas/${name}` }));
  const document = { paths: { "/": { schema, uses } }, components: { schemas: others } };
  return forGenerators(document).paths["/"].schema;
}
const object = (properties: Json, required: string[]): Json => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

describe("the document for generators", () => {
  test("makes one object of a union of objects, with what every object requires", () => {
    const Cat = object({ kind: { type: "string", enum: ["cat"] }, lives: { type: "integer" } }, ["kind", "lives"]);
    const Dog = object({ kind: { type: "string", enum: ["dog"] }, tricks: { type: "array", items: {} } }, ["kind"]);
    const union = { description: "A pet", oneOf: [{ $ref: "#/components/schemas/Cat" }, Dog] };
    expect(simplified(union, { Cat })).toEqual({
      description: "A pet",
      type: "object",
      properties: {
        kind: { type: "string", enum: ["cat", "dog"] },
        lives: { type: "integer" },
        tricks: { type: "array", items: {} },
      },
      required: ["kind"],
    });
  });

  test("makes a list of unions of a union of lists", () => {
    const listOf = (items: Json) => ({ type: "array", items });
    const union = { anyOf: [listOf(object({ a: { type: "number" } }, ["a"])), listOf(object({}, []))] };
    expect(simplified(union)).toEqual(listOf({ type: "object", properties: { a: { type: "number" } } }));
  });

  test("accepts every value for a union of different types, and null where one of them is null", () => {
    const nothing = { type: "string", nullable: true, enum: [null] };
    expect(simplified({ anyOf: [{ type: "number" }, { type: "boolean" }, nothing] })).toEqual({
      description: "One of number, boolean",
    });
    expect(simplified({ anyOf: [{ type: "number" }, nothing] })).toEqual({ nullable: true, type: "number" });
    const Unit = { type: "string", enum: ["DAY", "MONTH"] };
    expect(simplified({ nullable: true, ...Unit })).toEqual({ nullable: true, type: "string" });
    const reference = { nullable: true, allOf: [{ $ref: "#/components/schemas/Unit" }] };
    expect(simplified(reference, { Unit })).toEqual({ nullable: true, type: "string" });
  });

  test("leaves out what the server checks itself, constants that are no texts, and _id beside id", () => {
    const text = { type: "string", pattern: '"' };
    expect(simplified(object({ pattern: text, off: { type: "boolean", enum: [false] } }, ["pattern"]))).toEqual({
      type: "object",
      properties: { pattern: { type: "string" }, off: { type: "boolean" } },
      required: ["pattern"],
    });
    expect(simplified(object({ id: text, _id: text }, ["id", "_id"]))).toEqual({
      type: "object",
      properties: { id: { type: "string" } },
      required: ["id"],
    });
  });

  test("has neither unions nor components that nothing refers to", () => {
    const text = JSON.stringify(openApiDocument("", "3.0"));
    expect(text).not.toMatch(/"(anyOf|oneOf|pattern)":/);
    const { components } = JSON.parse(text) as { components: { schemas: object } };
    const unused = Object.keys(components.schemas).filter((name) => !text.includes(`"#/components/schemas/${name}"`));
    expect(unused).toEqual([]);
  });
});

test.each(["3.1", "3.0"] as const)("no component of OpenAPI %s is named as the constructor of another", (version) => {
  const { components } = openApiDocument("", version) as { components: { schemas: object } };
  const names = Object.keys(components.schemas);
  // A generated Go client has a function NewContract for its type Contract.
  expect(names.filter((name) => names.includes(name.replace(/^New/, "")) && name.startsWith("New"))).toEqual([]);
});
