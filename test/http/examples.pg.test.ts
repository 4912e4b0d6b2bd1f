import { afterAll, beforeAll, expect, test } from "vitest";
import { openApiDocument } from "../../src/http/openapi.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { yamlUpload } from "../support/uploads.ts";

/* The examples of the reference, sent as a reader of the page would send them: in this order, without a change. */

interface Described {
  operationId: string;
  parameters?: { name: string; in: string; example?: unknown }[];
  requestBody?: { content: Record<string, { example?: unknown }> };
}

const operations = Object.entries(
  (openApiDocument("") as { paths: Record<string, Record<string, Described>> }).paths,
).flatMap(([path, item]) =>
  Object.entries(item).flatMap(([method, each]) => (method === "servers" ? [] : [{ path, method, ...each }])),
);

/** The request that the reference page prepares for an operation. */
function exampleOf(operationId: string): { method: Parameters<TestApi["call"]>[0]; path: string; body: unknown } {
  const operation = operations.find((each) => each.operationId === operationId);
  if (operation === undefined) throw new Error(`no operation ${operationId}`);
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const parameter = operation.parameters?.find((each) => each.in === "path" && each.name === name);
    return String(parameter?.example);
  });
  const { content = {} } = operation.requestBody ?? {};
  const form = content["multipart/form-data"]?.example as { pricing: string } | undefined;
  const body = form === undefined ? content["application/json"]?.example : yamlUpload(form.pricing);
  return { method: operation.method.toUpperCase() as Parameters<TestApi["call"]>[0], path, body };
}

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

/** Keys that earlier answers contained. */
const keys: Record<"none" | "user" | "organization", string> = { none: "", user: "", organization: "" };

test.each([
  ["createUser", "none", 201],
  ["signIn", "none", 200],
  ["createOrganization", "user", 201],
  ["createService", "organization", 201],
  ["createContract", "organization", 201],
  ["evaluateFeatures", "organization", 200],
  ["evaluateFeature", "organization", 200],
  ["changeUsage", "organization", 200],
  ["createPricingToken", "organization", 200],
  ["novateContract", "organization", 200],
] as const)("the example of %s succeeds as it stands", async (operationId, key, status) => {
  const { method, path, body } = exampleOf(operationId);
  const answer = await api.call<{ apiKey?: string; apiKeys?: { key: string }[]; eval?: boolean }>(method, path, {
    key: keys[key],
    ...(body === undefined ? {} : { body }),
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(status);
  if (operationId === "signIn") keys.user = answer.body.apiKey ?? "";
  if (operationId === "createOrganization") keys.organization = answer.body.apiKeys?.[0]?.key ?? "";
  if (operationId === "evaluateFeature") expect(answer.body.eval).toBe(true);
});
