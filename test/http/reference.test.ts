import { expect, test } from "vitest";
import { openApiDocument } from "../../src/http/openapi.ts";
import { GROUPS, type Operation } from "../../src/wire/operation.ts";
import { OPERATIONS } from "../../src/wire/operations.ts";

interface Documented {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  parameters: { name: string; description?: string; schema: object }[];
}

const operations = Object.values(
  (openApiDocument("") as { paths: Record<string, Record<string, Documented>> }).paths,
).flatMap((item) => Object.entries(item).flatMap(([name, each]) => (name === "servers" ? [] : [each])));
const exampleOf = (body: Operation["body"]) => (typeof body === "object" ? body : undefined);

test("every operation has a unique id, a short summary, a description and a known group", () => {
  expect(operations).toHaveLength(OPERATIONS.length);
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
  for (const { operationId, summary, description, tags } of operations) {
    expect(operationId).toMatch(/^[a-z]+[A-Z]\w+$|^signIn$/);
    expect(summary.replace(/ in an organization$/, "").split(" ").length, operationId).toBeLessThanOrEqual(8);
    expect(description.length, operationId).toBeGreaterThan(20);
    expect(Object.keys(GROUPS)).toContain(tags[0]);
  }
});

test("every parameter has a description and a type", () => {
  for (const { operationId, parameters } of operations)
    for (const { name, description, schema } of parameters) {
      expect(description, `${operationId} ${name}`).toBeTruthy();
      expect(Object.keys(schema).length, `${operationId} ${name}`).toBeGreaterThan(0);
    }
});

test.each(OPERATIONS.map((operation) => [operation.id, operation] as const))(
  "the examples of %s have the documented shape",
  (_, { body, answers }) => {
    const documented = exampleOf(body);
    if (documented !== undefined) expect(documented.schema.safeParse(documented.example).error).toBeUndefined();
    for (const answer of Object.values(answers))
      if (answer !== null) expect(answer.schema.safeParse(answer.example).error).toBeUndefined();
  },
);
