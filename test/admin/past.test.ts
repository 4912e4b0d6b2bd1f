import { expect, test } from "vitest";
import type { AsOf } from "../../src/admin/answers.ts";
import { readStates, recentMoment, STATES_PER_PAGE, type ReadAt } from "../../src/admin/past.ts";

interface Recorded {
  since: number;
  cause: AsOf["cause"];
  plan: string;
}
const DAY = Date.UTC(2025, 5, 1);

/** Answers like `GET /contracts/{userId}?at=`, from a record in ascending order. */
function readerOf(record: readonly Recorded[]): { read: ReadAt; asked: string[] } {
  const asked: string[] = [];
  const read: ReadAt = async (at) => {
    asked.push(at);
    const index = record.findLastIndex(({ since }) => since <= Date.parse(at));
    const state = record[index];
    if (state === undefined) return { refusal: "INVALID DATA: The record starts later" };
    const next = record[index + 1];
    const since = new Date(state.since).toISOString();
    const until = next === undefined ? null : new Date(next.since).toISOString();
    return {
      contract: {
        id: "1",
        organizationId: "2",
        userContact: { userId: "ada", username: "ada" },
        billingPeriod: { startDate: since, endDate: since, autoRenew: true, renewalDays: 30 },
        usageLevels: {},
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: state.plan },
        subscriptionAddOns: {},
        history: [],
        asOf: { at, since, until, cause: state.cause },
      },
    };
  };
  return { read, asked };
}

const iso = (moment: number) => new Date(moment).toISOString();

test("a history has each state with its cause, back to the creation", async () => {
  const { read, asked } = readerOf([
    { since: DAY, cause: "creation", plan: "FREE" },
    { since: DAY + 1, cause: "novation", plan: "PRO" },
    { since: DAY + 5000, cause: "archiving", plan: "BUSINESS" },
  ]);
  const { states, earlier, refusal } = await readStates(read, iso(DAY + 9000), false);
  expect(states.map(({ asOf, subscriptionPlans }) => [asOf.cause, asOf.since, asOf.until, subscriptionPlans])).toEqual([
    ["archiving", iso(DAY + 5000), null, { tasker: "BUSINESS" }],
    ["novation", iso(DAY + 1), iso(DAY + 5000), { tasker: "PRO" }],
    ["creation", iso(DAY), iso(DAY + 1), { tasker: "FREE" }],
  ]);
  expect({ earlier, refusal }).toEqual({ earlier: undefined, refusal: undefined });
  expect(asked).toHaveLength(3);
});

test("a state that began after the last full second belongs to the latest page, not to that of a chosen moment", async () => {
  const record: Recorded[] = [
    { since: DAY, cause: "creation", plan: "FREE" },
    { since: DAY + 700, cause: "novation", plan: "PRO" },
  ];
  const causes = async (isLatest: boolean) =>
    (await readStates(readerOf(record).read, iso(DAY), isLatest)).states.map(({ asOf }) => asOf.cause);
  expect(await causes(true)).toEqual(["novation", "creation"]);
  expect(await causes(false)).toEqual(["creation"]);
});

test("one page asks a limited number of times, and the next page goes on without a gap or a repetition", async () => {
  const record = Array.from({ length: STATES_PER_PAGE + 2 }, (_, index): Recorded => ({
    since: DAY + index,
    cause: index === 0 ? "creation" : "renewal",
    plan: "PRO",
  }));
  const { read, asked } = readerOf(record);
  const first = await readStates(read, iso(DAY + 1000), true);
  expect(asked).toHaveLength(STATES_PER_PAGE);
  const second = await readStates(read, first.earlier ?? "", false);
  expect([...first.states, ...second.states].map(({ asOf }) => Date.parse(asOf.since))).toEqual(
    record.map(({ since }) => since).toReversed(),
  );
  expect(second.earlier).toBeUndefined();
});

test("a history that the server cannot follow to the creation ends with the server's reason", async () => {
  const { read } = readerOf([{ since: DAY, cause: "novation", plan: "PRO" }]);
  const { states, earlier, refusal } = await readStates(read, iso(DAY + 1), false);
  expect(states).toHaveLength(1);
  expect({ earlier, refusal }).toEqual({ earlier: undefined, refusal: "INVALID DATA: The record starts later" });
});

test("the recent moment is the second of the server's clock, or a billing period's start within it", async () => {
  const { read } = readerOf([{ since: DAY + 700, cause: "creation", plan: "PRO" }]);
  const answer = await read(iso(DAY + 900));
  if ("refusal" in answer) throw new Error(answer.refusal);
  const at = (moment: number) => recentMoment(new Date(moment).toUTCString(), answer.contract);
  expect([DAY - 1000, DAY, DAY + 1000].map(at)).toEqual([DAY - 1000, DAY + 700, DAY + 1000]);
});
