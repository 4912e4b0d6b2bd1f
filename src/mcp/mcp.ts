/**
 * Meters the tools of an MCP server (`faregate/mcp`): hides those whose feature is off, holds and settles per call, and denies
 * with content that an agent can act on. Works with any server that has `registerTool`.
 */
import type { Faregate } from "../client/client.ts";
import type { Spender } from "../client/back/budgets.ts";
import { extensionMs, type HoldAnswer } from "../client/back/holds.ts";
import { type Denial, explainDenial } from "../client/back/denial.ts";
import type { RecordedUsage, UsageItem } from "../client/back/usage-items.ts";

export type { Denial } from "../client/back/denial.ts";

type Amounts = Readonly<Record<string, number | Readonly<Record<string, number>>>>;

/** Result of a tool, as MCP defines it. */
export interface ToolResult {
  content?: unknown[];
  structuredContent?: unknown;
  isError?: boolean | undefined;
  [field: string]: unknown;
}

/** Price of a tool. */
export interface ToolTerms<Result = ToolResult> {
  /** `{service}-{feature}`: the tool is hidden while it is off. */
  readonly featureId: string;
  /** Amounts to hold before a call, by limit id. Default: nothing is counted. */
  readonly amounts?: Amounts | undefined;
  /**
   * Amounts that a call took. Default: those that were held, and none of a result with `isError`. Where they are more than
   * is left, those that were held count.
   */
  readonly cost?: ((result: Result) => Amounts) | undefined;
}

export interface ToolMeterOptions {
  readonly userId: string;
  /** Path of who spends, such as `grace/agent-7`. */
  readonly spender?: Spender | undefined;
  /** By the name of the tool. Others are not metered. */
  readonly tools: Readonly<Record<string, ToolTerms>>;
  /** ISO 8601: how long a hold outlives a process that dies. A running call extends it. Default: `PT5M`. */
  readonly duration?: string | undefined;
  /** Receives why a call that ran could not be counted, or its hold released. Its result is returned. Default: ignored. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A registered tool, which a server hides while it is disabled. */
interface RegisteredTool {
  enable(): void;
  disable(): void;
}

/** The part of an MCP server that registers tools. */
interface ToolServer {
  /** Servers overload it by the schema of the input, so this shape accepts each of them. */
  registerTool(name: string, config: never, handler: never): RegisteredTool;
}

/** The part of a Faregate client that a meter calls. */
export type ToolMeterClient = Pick<Faregate, "usage" | "features">;

/**
 * Meters every tool that is registered afterwards. `refresh` shows the tools whose features are on, and hides the others: call
 * it once before the server connects, and after changes of the contract.
 */
export function meterTools<Server extends ToolServer>(
  server: Server,
  client: ToolMeterClient,
  options: ToolMeterOptions,
): { registerTool: Server["registerTool"]; refresh(): Promise<void> } {
  const registered = new Map<string, RegisteredTool>();
  const registerTool = (name: string, config: unknown, handler: (...args: unknown[]) => unknown) => {
    const terms = Object.hasOwn(options.tools, name) ? options.tools[name] : undefined;
    if (terms === undefined) return server.registerTool(name, config as never, handler as never);
    const metered = (...args: unknown[]) =>
      callMetered(client, options, terms, async () => (await handler(...args)) as ToolResult);
    const tool = server.registerTool(name, config as never, metered as never);
    registered.set(name, tool);
    return tool;
  };
  return {
    registerTool: registerTool as Server["registerTool"],
    async refresh() {
      const { features } = await client.features.evaluateAll(options.userId, { spender: options.spender });
      for (const [name, tool] of registered) {
        const featureId = options.tools[name]?.featureId ?? "";
        if (features[featureId] === true) tool.enable();
        else tool.disable();
      }
    },
  };
}

/** Runs one call: within a hold where the tool counts something, else while its feature is on. */
async function callMetered(
  client: ToolMeterClient,
  { userId, spender, duration = "PT5M", onError = () => {} }: ToolMeterOptions,
  { featureId, amounts, cost }: ToolTerms,
  call: () => Promise<ToolResult>,
): Promise<ToolResult> {
  const denied = async (rest: Rest) => {
    const asked = { userId, featureId, amounts: { ...plainAmounts(amounts), ...rest.amounts } };
    return denialResult(await explainDenial(client.features, asked, rest));
  };
  if (amounts === undefined) {
    const { eval: isOn, error, budget } = await client.features.evaluate(userId, featureId, { spender });
    if (error !== null) throw new Error(error.message);
    return isOn ? call() : denied({ remaining: null, resetAt: null, budget });
  }
  const answer = await client.usage.hold(userId, featureId, { consumption: amounts, duration, spender });
  if (answer.error !== null) throw new Error(answer.error.message);
  if (!answer.eval) return denied(answer);
  const holdId = answer.hold?.id;
  if (holdId === undefined) return call();
  // An extension that fails is repeated by the next.
  const extend = () => void client.usage.extend(holdId, duration).catch(() => {});
  const extensions = setInterval(extend, extensionMs(duration));
  let result: ToolResult;
  try {
    result = await call();
  } catch (error) {
    // A hold that cannot be released ends by itself; the caller needs the error of the tool.
    await client.usage.release(holdId).catch(onError);
    throw error;
  } finally {
    clearInterval(extensions);
  }
  const isFree = result.isError === true && cost === undefined;
  const end = isFree
    ? client.usage.release(holdId)
    : settle(client, holdId, { userId, featureId, amounts: cost?.(result) ?? amounts, spender });
  // The work is done: an agent that received an error instead would repeat it.
  await end.catch(onError);
  return result;
}

/** Counts what a call took. A hold that has ended, as after 24 hours, no longer counts it, so it is recorded then. */
async function settle(client: ToolMeterClient, holdId: string, use: UsageItem): Promise<void> {
  try {
    const { eval: isSettled, hold } = await client.usage.settle(holdId, use.amounts);
    // More than is left: the held amounts are counted in any case.
    if (!isSettled) await client.usage.settle(holdId, hold.amounts);
  } catch (error) {
    if (!hasEnded(error)) throw error;
    requireCounted(await client.usage.record([{ ...use, key: holdId }]));
  }
}

/** Returns true for the error of a call that needs an open hold, if the hold has ended. */
const hasEnded = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "status" in error && error.status === 409;

/**
 * Checks that the use of a hold that has ended is counted by its record.
 * @throws Error that says why it is not.
 */
function requireCounted({ items: [item] }: RecordedUsage): void {
  if (item?.verdict === "counted" || item?.verdict === "duplicate") return;
  throw new Error(`The usage was not counted: ${item?.error ?? item?.reason ?? "it has no verdict"}`);
}

/** The part of an answer that explains a denial. `amounts` is the cost of units. */
type Rest = Pick<Denial, "remaining" | "resetAt" | "budget"> & Pick<HoldAnswer, "amounts">;

/** Returns the amounts that are not in units. */
const plainAmounts = (amounts: Amounts = {}): Record<string, number> =>
  Object.fromEntries(Object.entries(amounts).flatMap(([id, of]) => (typeof of === "number" ? [[id, of]] : [])));

/** Result of a call that was denied. An agent reads the structured content; the text is for clients without it. */
function denialResult(denial: Denial): ToolResult {
  const structuredContent = { error: denial.reason, ...denial };
  return { isError: true, structuredContent, content: [{ type: "text", text: JSON.stringify(structuredContent) }] };
}
