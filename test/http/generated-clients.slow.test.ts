import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { generate } from "openapi-typescript-codegen";
import generateTypes, { astToString } from "openapi-typescript";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openApiDocument } from "../../src/http/openapi.ts";

const TSC = join(import.meta.dirname, "../../node_modules/.bin/tsc");
const source = JSON.stringify(openApiDocument(""));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "faregate-clients-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Compiles files strictly. Rejects with the compiler's output. */
async function compile(...files: string[]): Promise<void> {
  const options = ["--strict", "--noEmit", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"];
  await promisify(execFile)(TSC, [...options, "--lib", "es2022,dom", ...files], { cwd: folder }).catch(
    (error: { stdout: string }) => {
      throw new Error(error.stdout.slice(0, 2_000));
    },
  );
}

test.each(["3.1", "3.0"] as const)(
  "OpenAPI %s passes redocly's recommended rules without a warning",
  async (version) => {
    const config = await createConfig({ extends: ["recommended"] });
    const problems = await lintFromString({ source: JSON.stringify(openApiDocument("", version)), config });
    expect(problems.map(({ message, location }) => `${location[0]?.pointer} ${message}`)).toEqual([]);
  },
);

test("openapi-typescript generates types that compile, and that know bodies, parameters and answers", async () => {
  await writeFile(join(folder, "api.ts"), astToString(await generateTypes(source)));
  await writeFile(
    join(folder, "use.ts"),
    `import type { components, operations } from "./api";
const consumption: NonNullable<operations["evaluateFeature"]["requestBody"]>["content"]["application/json"] = { "tasker-maxTasks": 1 };
const query: operations["evaluateFeatures"]["parameters"]["query"] = { details: true };
type Answer = operations["createContract"]["responses"]["201"]["content"]["application/json"];
export const endOf = (contract: Answer): string => contract.billingPeriod.endDate;
export const same = (contract: components["schemas"]["Contract"]): Answer => contract;
// @ts-expect-error A flag is a boolean.
const wrong: operations["evaluateFeatures"]["parameters"]["query"] = { details: "yes" };
void [query, wrong];
`,
  );
  await compile("use.ts");
});

test("openapi-typescript-codegen generates a client that compiles", async () => {
  await generate({ input: JSON.parse(source) as Record<string, unknown>, output: join(folder, "client") });
  await writeFile(
    join(folder, "call.ts"),
    `import { FeaturesService, type FeatureAnswer, OpenAPI } from "./client";
OpenAPI.BASE = "http://localhost:3000/api/v1";
export const mayUse = async (userId: string): Promise<boolean> => {
  const answer = (await FeaturesService.evaluateFeature(userId, "tasker-board")) as FeatureAnswer;
  return answer.eval;
};
`,
  );
  await compile("call.ts");
});
