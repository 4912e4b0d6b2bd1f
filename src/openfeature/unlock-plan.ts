import type { Provider } from "@openfeature/server-sdk";

/**
 * Adds the metadata `unlockPlan` to features that are off: the plan that turns them on, as `findPlan` finds it; see
 * `features.unlock` of `faregate/client`. It is asked at each such evaluation. A failure only leaves the metadata out.
 * @returns the same provider.
 */
export function withUnlockPlan<P extends Provider>(
  provider: P,
  findPlan: (userId: string, featureId: string) => Promise<string | null | undefined>,
): P {
  const resolve = provider.resolveBooleanEvaluation.bind(provider);
  provider.resolveBooleanEvaluation = async (flagKey, defaultValue, context, logger) => {
    const details = await resolve(flagKey, defaultValue, context, logger);
    if (details.value || details.errorCode !== undefined) return details;
    const find = async () => findPlan(context.targetingKey ?? "", flagKey);
    const unlockPlan = await find().catch(() => null);
    return unlockPlan ? { ...details, flagMetadata: { ...details.flagMetadata, unlockPlan } } : details;
  };
  return provider;
}
