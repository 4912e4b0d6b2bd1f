import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { tasker, upload } from "../support/contracting.ts";
import { runFaregate } from "./io.ts";

/* `faregate types` against the whole application, in process. */

let api: TestApi;
const URL = "http://faregate.test/";
const OUT = "faregate-features.d.ts";

const wide = `
saasName: Wide
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
${Array.from(
  { length: 1_100 },
  (_, n) =>
    `  feature${n}: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['feature${n}']" }`,
).join("\n")}
plans:
  FREE: { price: 0, features: null }
`;

beforeAll(async () => {
  api = await createTestApi();
  const next = tasker({ version: "2.0.0" }).replaceAll("darkMode", "nightMode");
  await upload(api, api.callers.all.key, tasker(), next, wide);
});
afterAll(() => api.close());

const run = (args: string[], files: Record<string, string> = {}, key: string = api.callers.evaluation.key) =>
  runFaregate(["types", URL, ...args], files, {
    env: { FAREGATE_API_KEY: key },
    fetch: async (input, init) => api.app.fetch(new Request(input, init)),
  });

test("writes the features of all active versions of all services, over all pages, with a key of scope EVALUATION", async () => {
  const { code, files, err } = await run([]);
  expect({ code, err }).toEqual({ code: 0, err: `${OUT}: 1105 feature ids\n` });
  const ids = [...(files[OUT] ?? "").matchAll(/^ {4}"(.*)": true;$/gm)].map(([, id]) => id);
  expect(ids.filter((id) => id?.startsWith("wide-"))).toHaveLength(1_100);
  expect(ids.filter((id) => id?.startsWith("tasker-"))).toEqual([
    "tasker-board",
    "tasker-bulk",
    "tasker-darkMode",
    "tasker-nightMode",
    "tasker-sla",
  ]);
});

test("is the same as from the file, of a service, and --check notices when a version is archived", async () => {
  const fromServer = await run(["--service", "Tasker"]);
  const fromFiles = await runFaregate(["types", "1.yml", "2.yml"], {
    "1.yml": tasker(),
    "2.yml": tasker({ version: "2.0.0" }).replaceAll("darkMode", "nightMode"),
  });
  expect(fromServer.files[OUT]).toBe(fromFiles.files[OUT]);
  const check = () => run(["--service", "Tasker", "--check"], fromServer.files);
  expect(await check()).toMatchObject({ code: 0 });
  const path = "/services/Tasker/pricings/1.0.0?availability=archived";
  expect((await api.call("PUT", path, { key: api.callers.all.key, body: { subscriptionPlan: "PRO" } })).status).toBe(
    200,
  );
  expect(await check()).toMatchObject({ code: 1, files: fromServer.files });
});

test("a key that the server refuses is exit code 2 with the server's sentence, and without the key", async () => {
  const refused = await run([], {}, "org_unknown");
  expect(refused).toMatchObject({ code: 2, err: `faregate: ${URL}: Invalid Organization API Key\n`, files: {} });
});
