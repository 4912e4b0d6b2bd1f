import { analyse, clocksOf } from "../../core/change/analysis.ts";
import type { AnalysisTask } from "../../core/change/analysis.ts";
import { finish } from "../../core/steps.ts";

/** A task, done in this thread without a pause. */
export default (task: AnalysisTask): unknown =>
  finish(
    analyse(
      task,
      clocksOf(() => performance.now()),
    ),
  );
