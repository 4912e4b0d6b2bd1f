import * as fc from "fast-check";
import { expect, it } from "vitest";
import { formatDistance, formatName, formatUnknown } from "../../src/admin/format.ts";

it.each([
  ["darkMode", "Dark mode"],
  ["max_tasks", "Max tasks"],
  ["extra-tasks", "Extra tasks"],
  ["board", "Board"],
  ["sla", "SLA"],
  ["SLA", "SLA"],
  ["apiCalls", "API calls"],
  ["maxAPICalls", "Max API calls"],
  ["restApis", "Rest APIs"],
  ["supportedAPIs", "Supported APIs"],
  ["samlSso", "SAML SSO"],
  ["prioritySLA99_9", "Priority SLA99 9"],
  ["2FA", "2FA"],
  ["require2FA", "Require 2FA"],
  ["exportToCsv", "Export to CSV"],
  ["pdfs", "PDFs"],
  ["css", "CSS"],
  ["qos", "qos"],
  ["tasks10Max", "Tasks10 max"],
])("the title of %s is %s", (key, title) => {
  expect(formatName(key)).toBe(title);
});

it("a title has the letters of its key, and never lowers two capitals in a row", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,20}$/), (key) => {
      const title = formatName(key);
      const letters = (text: string) => text.toLowerCase().replace(/[\s_-]/g, "");
      expect(letters(title)).toBe(letters(key));
      for (const [capitals] of key.matchAll(/(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])/g)) expect(title).toContain(capitals);
    }),
  );
});

it("a price is a number, however large, and a limit is unlimited from 100,000,000 on", () => {
  expect(formatUnknown({ max: 1e8 })).toBe("max Unlimited");
  expect(formatUnknown([1e8], false)).toBe("100,000,000");
});

it.each([
  [31, "in 31 days"],
  [59, "in 59 days"],
  [60, "in 2 months"],
  [-31, "31 days ago"],
  [366, "in 12 months"],
  [730, "in 2 years"],
  [1, "tomorrow"],
])("%d days from now are %s: a month or a year alone would name no day", (days, text) => {
  expect(formatDistance(new Date(days * 86_400_000).toISOString(), 0)).toBe(text);
});
