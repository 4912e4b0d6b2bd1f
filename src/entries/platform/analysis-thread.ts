import { constants, setPriority } from "node:os";
import { analyse, clocksOf } from "../../core/change/analysis.ts";
import type { AnalysisTask } from "../../core/change/analysis.ts";
import { finish } from "../../core/steps.ts";

try {
  // Linux applies this to the calling thread only: requests on the event loop come first.
  if (process.platform === "linux" && !("Deno" in globalThis)) setPriority(0, constants.priority.PRIORITY_LOW);
} catch {
  // A sandbox may forbid it.
}

/** A task, done in this thread without a pause. */
export default (task: AnalysisTask): unknown =>
  finish(
    analyse(
      task,
      clocksOf(() => performance.now()),
    ),
  );
