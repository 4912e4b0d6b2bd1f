/**
 * Local evaluation for back ends (`faregate/local`): features are answered from the memory of the process. Contains the
 * pricing engine. For Node, Bun and Deno.
 */
export {
  createLocalEvaluator,
  type LocalAllFeatures,
  type LocalAnswer,
  type LocalEvaluator,
  type LocalEvaluatorOptions,
  type LocalFreshness,
  type LocalState,
} from "./evaluator.ts";
