import { describe, expect, it } from "vitest";
import { completeTexts } from "../../src/admin/language.ts";
import { type Texts, texts } from "../../src/admin/texts.ts";
import { de } from "../../src/admin/texts/de.ts";
import { EVENT_CODES } from "../../src/core/event-messages.ts";
import { AUDIT_ACTIONS } from "../../src/operations/audit.ts";

await completeTexts();
describe.each([
  ["English", texts],
  ["German", de],
])("%s texts", (_, { audit, events }) => {
  it("have words for every audited action, and for no other", () => {
    expect(Object.keys(audit.words).toSorted()).toEqual([...AUDIT_ACTIONS].toSorted());
  });

  it("have words for every event code, and for no other", () => {
    expect(Object.keys(events.words).toSorted()).toEqual([...EVENT_CODES].toSorted());
  });
});

/** Lists the paths of all texts with their types. */
function leavesOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [typeof value];
  return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner).map((leaf) => `${name}.${leaf}`));
}

it("sentences about one thing are singular", () => {
  const sentences = ({ analytics, billing, change, contract, credits, novation, overview, replay, team }: Texts) => [
    contract.deleteLead("Ada", "1"),
    contract.renewNow("1"),
    billing.creditDays("500", "1"),
    overview.lastHours("1"),
    analytics.trend("Calls", "3", "1"),
    credits.revokeLead("Ada", "1"),
    team.seats("1", "1"),
    novation.failed(1),
    novation.goOn(1),
    replay.progress("1", "1"),
    replay.stopped("1", "3", "33%"),
    replay.paying("1", "1", "1"),
    change.progress("1", "1"),
    change.configurationsProgress("1", "1"),
  ];
  expect(sentences(texts)).toEqual([
    "Ada loses 1 feature at once. All usage and history are deleted. This cannot be undone.",
    "Extend by 1 day",
    "500 per payment, for 1 day",
    "In the last hour",
    "Calls: 3 in 1 day",
    "Ada loses the 1 that is left. What was used stays counted.",
    "1 of 1 seat taken",
    "1 could not be changed. The reason is below.",
    "Change the other one",
    "1 of 1 contract",
    "1 of 3 contracts would have been stopped (33%)",
    "1 pays more, 1 pays less, 1 pays the same.",
    "1 of 1 contract checked",
    "1 of 1 group checked",
  ]);
  expect(sentences(de)).toEqual([
    "Ada verliert sofort 1 Funktion. Nutzung und Verlauf werden gelöscht. Das lässt sich nicht rückgängig machen.",
    "Um 1 Tag verlängern",
    "500 je Zahlung, für 1 Tag",
    "In der letzten Stunde",
    "Calls: 3 in 1 Tag",
    "Ada verliert den Rest von 1. Was genutzt wurde, bleibt gezählt.",
    "1 von 1 Platz belegt",
    "1 ließ sich nicht ändern. Der Grund steht unten.",
    "Den anderen ändern",
    "1 von 1 Vertrag",
    "1 von 3 Verträgen wäre angehalten worden (33%)",
    "1 zahlt mehr, 1 weniger, 1 gleich viel.",
    "1 von 1 Vertrag geprüft",
    "1 von 1 Gruppe geprüft",
  ]);
});

it("the German texts have the shape of the English ones", () => {
  expect(leavesOf(de).toSorted()).toEqual(leavesOf(texts).toSorted());
});
