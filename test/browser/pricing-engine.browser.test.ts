import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { CASE_FILES, readCases, TODAY } from "../core/pricing/case-file.ts";
import { bundle } from "../support/bundle.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { type EngineCase, runCase } from "../runtimes/engine-cases.ts";

/* The pricing engine in Chromium: every case says what it says on Node. */

declare global {
  /** Where the bundle puts itself. */
  var engine: { runCase: typeof runCase };
}

let browser: TestBrowser;
let page: Page;
beforeAll(async () => {
  browser = await launchChromium();
  page = await browser.newPage();
  const content = await bundle(resolve(import.meta.dirname, "../runtimes/engine-cases.ts"), {
    format: "iife",
    globalName: "engine",
  });
  await page.addScriptTag({ content });
});
afterAll(() => browser.close());

describe.each([...CASE_FILES])("the cases of %s", (file) => {
  test("come out the same in Chromium as on Node", async () => {
    const cases: readonly EngineCase[] = readCases(file);
    const today = TODAY.toISOString();
    const said = await page.evaluate(
      (given: { cases: readonly EngineCase[]; today: string }) =>
        given.cases.map((each) => globalThis.engine.runCase(each, given.today)),
      { cases, today },
    );
    expect(said).toEqual(cases.map((each) => runCase(each, today)));
  });
});
