import { expect, it } from "vitest";
import { pluralOf } from "../../src/admin/offer-texts.ts";

it.each([
  [500, "task", "tasks"],
  [1, "task", "task"],
  [0, "task", "tasks"],
  [1.5, "hour", "hours"],
  [500, "tasks", "tasks"],
  [3, "query", "queries"],
  [3, "day", "days"],
  [3, "box", "boxes"],
  [3, "branch", "branches"],
  [3, "person", "people"],
  [3, "active user", "active users"],
  [3, "task/month", "tasks/month"],
  [3, "API call", "API calls"],
  [10, "GB", "GB"],
  [10, "GB storage", "GB storage"],
  [10, "kWh", "kWh"],
  [10, "ms", "ms"],
  [10, "%", "%"],
  [10, "Aufgabe", "Aufgabe"],
  [10, "tâche", "tâche"],
  [10, "", ""],
  [10, "user (named)", "user (named)"],
])("%d of the unit '%s' are shown with '%s'", (count, unit, plural) => {
  expect(pluralOf(unit, count)).toBe(plural);
});
