import { expect, test } from "vitest";
import type { DiffTask, UploadTask } from "../../../src/core/change/analysis.ts";
import { CALLS_PER_OWNER, createAnalysis, inBudget, type RunInThread } from "../../../src/operations/state/analysis.ts";
import { extensions } from "../../support/hostile-pricings.ts";

/** Too large for the attempt on the event loop. */
const TASK: DiffTask = { kind: "diff", before: "x".repeat(60_000), after: "", format: "json", limitMs: 1 };

/** Threads that finish when `finish` is called. Counts the tasks that reached them. */
function threads() {
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const state = { started: 0, finish };
  const runInThread = (async () => {
    state.started += 1;
    await finished;
    return { text: "", complete: true };
  }) as unknown as RunInThread;
  return { state, analysis: createAnalysis({ runInThread, mayWait: false }) };
}

test("more organizations do not give an owner more threads", async () => {
  const { state, analysis } = threads();
  const call = (organizationId: string, owner: string) =>
    analysis
      .call({ organizationId, ownerId: async () => owner }, ({ run }) => run(TASK))
      .catch((error: Error) => error);
  const calls = ["one", "one", "two", "two", "three", "four"].map((name) => call(name, "mallory"));
  const foreign = call("five", "ada");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(state.started).toBe(CALLS_PER_OWNER + 1);
  state.finish();
  const answers = await Promise.all(calls);
  expect(answers.filter((answer) => answer instanceof Error).map((error) => (error as Error).message)).toEqual([
    "Too many analyses of this organization's owner at a time: at most 4. Try again in 5 seconds",
    "Too many analyses of this organization's owner at a time: at most 4. Try again in 5 seconds",
  ]);
  expect(await foreign).toEqual({ text: "", complete: true });
});

test("a rejected or finished call frees the places of organization and owner", async () => {
  const { state, analysis } = threads();
  const call = (organizationId: string) =>
    analysis
      .call({ organizationId, ownerId: async () => "mallory" }, ({ run }) => run(TASK))
      .catch((error: Error) => error);
  const first = ["one", "one", "two", "two", "three"].map(call);
  state.finish();
  await Promise.all(first);
  const second = await Promise.all(["one", "one", "two", "two"].map(call));
  expect(second.filter((answer) => answer instanceof Error)).toEqual([]);
});

test("without threads, other work runs between the steps of a review", async () => {
  const upload: UploadTask = {
    kind: "upload",
    text: extensions({ addOns: 10, limits: 2, maxQuantity: 10 }),
    now: Date.now(),
    maxDepth: undefined,
    reviews: true,
    expectations: undefined,
    lintMs: 60_000,
    expectationsMs: 1_000,
  };
  let turns = 0;
  const other = setInterval(() => (turns += 1), 0);
  const { parsed, review } = await createAnalysis()
    .call({ organizationId: "one", ownerId: async () => "ada" }, ({ run }) => run(upload))
    .finally(() => clearInterval(other));
  expect(parsed.ok && review?.ok).toBe(true);
  // In one piece, only one turn would run. The review has 147 slices.
  expect(turns).toBeGreaterThan(40);
});

test("a budget is never over in the first 16 readings, and one without time is over from then on", async () => {
  function* search(isOver: () => boolean) {
    const readings: boolean[] = [];
    while (readings.length < 20) {
      readings.push(isOver());
      yield;
    }
    return readings;
  }
  const expected = Array.from({ length: 20 }, (_, index) => index >= 16);
  expect(await inBudget(0, search)).toEqual(expected);
});
