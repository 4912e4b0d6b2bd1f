import { Faregate, parsePricingToken, ServiceRequestError } from "../../src/client/client.ts";

/**
 * Runs a back end's calls with its client in one sequence, identical on every runtime. The user needs a contract
 * without consumption.
 */
export async function clientScenario(url: string, apiKey: string, userId: string): Promise<unknown> {
  const { contracts, features, services } = new Faregate({ url, apiKey, lastKnownForMs: 1_000 });
  const consumption = { "tasker-maxTasks": 2 };
  const idempotencyKey = `${userId}-once`;
  const racing = await Promise.all(
    [1, 2, 3].map(() => features.evaluate(userId, "tasker-board", { consumption, idempotencyKey })),
  );
  const all = await features.evaluateAll(userId);
  const token = parsePricingToken(await features.pricingToken(userId));
  const refused: unknown = await contracts.get("nobody").catch((error: unknown) => error);
  const aborted: unknown = await contracts
    .get(userId, { signal: AbortSignal.abort() })
    .catch((error: unknown) => error);
  const listed: string[] = [];
  for await (const { userContact } of contracts.all({ username: userId })) listed.push(userContact.userId);
  await features.revert(userId, "tasker-board");
  return {
    used: racing.map((answer) => [answer.used, answer.counted, answer.stale]),
    board: all.isEnabled("tasker-board"),
    token: [token.sub, token.features["tasker-board"]],
    refused: refused instanceof ServiceRequestError && [refused.code, refused.status, refused.message],
    aborted: aborted instanceof ServiceRequestError && aborted.code,
    listed,
    after: (await features.evaluate(userId, "tasker-board")).used,
    versions: Object.keys((await services.get("Tasker")).activePricings),
  };
}
