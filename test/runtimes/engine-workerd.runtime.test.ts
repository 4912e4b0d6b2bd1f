import { resolve } from "node:path";
import { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CASE_FILES, readCases, TODAY } from "../core/pricing/case-file.ts";
import { bundle } from "../support/bundle.ts";
import { runCase } from "./engine-cases.ts";

/* The pricing engine in workerd, without Node's compatibility: every case says what it says on Node. */

let worker: Miniflare;
beforeAll(async () => {
  const engine = await bundle(resolve(import.meta.dirname, "engine-cases.ts"), { format: "esm" });
  worker = new Miniflare({
    modules: [
      {
        type: "ESModule",
        path: "worker.mjs",
        contents: `
          import { runCase } from "./engine.mjs";
          export default { fetch: async (request) => {
            const { cases, today } = await request.json();
            return Response.json(cases.map((each) => runCase(each, today)));
          } };`,
      },
      { type: "ESModule", path: "engine.mjs", contents: engine },
    ],
    modulesRoot: "/",
    compatibilityDate: "2026-03-01",
  });
  await worker.ready;
});
afterAll(() => worker.dispose());

describe.each([...CASE_FILES])("the cases of %s", (file) => {
  test("come out the same in workerd as on Node", async () => {
    const cases = readCases(file);
    const today = TODAY.toISOString();
    const answer = await worker.dispatchFetch("http://engine/", {
      method: "POST",
      body: JSON.stringify({ cases, today }),
    });
    expect(await answer.json()).toEqual(cases.map((each) => runCase(each, today)));
  });
});
