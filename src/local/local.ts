/**
 * Local evaluation for back ends (`faregate/local`): features are answered from the memory of the process. Contains the
 * pricing engine. For Node, Bun and Deno.
 */
export { createLocalEvaluator } from "./evaluator.ts";
export type {
  LocalAllFeatures,
  LocalAnswer,
  LocalEvaluator,
  LocalEvaluatorOptions,
  LocalFreshness,
  LocalOptions,
  LocalState,
} from "./local-evaluator.ts";
