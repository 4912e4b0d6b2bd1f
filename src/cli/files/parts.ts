import { equalJson } from "../../core/change/change.ts";
import type { Manifest, WebhookEntry } from "../../core/folder/manifest.ts";
import { isLocalHost, webhookUrlProblem } from "../../core/webhooks.ts";
import { webhookAddress } from "./manifest.ts";
import type { Part, PartPlan, PartStep, PlanOptions } from "./plan.ts";
import type { Server, ServerWebhook } from "./server.ts";

/** Compares everything but services with the server. */
export async function partsOf(
  manifest: Manifest,
  server: Server,
  options: Pick<PlanOptions, "only" | "prune">,
  notes: string[] = [],
): Promise<PartPlan[]> {
  const { gate, alerts, webhooks } = manifest;
  const takes = (part: Part) => options.only?.includes(part) ?? true;
  const parts: PartPlan[] = [];
  if (alerts !== undefined && takes("alerts")) {
    if (server.rights.isUser) {
      const isSame = equalJson(sorted(alerts.thresholds), await server.thresholds());
      parts.push({ part: "alerts", steps: isSame ? [] : [{ do: "alerts" }] });
    } else {
      const refusal = "alerts: needs the user key of a MANAGER; leave it out with --only";
      parts.push({ part: "alerts", steps: [], refusals: [refusal] });
    }
  }
  if (webhooks !== undefined && takes("webhooks"))
    parts.push({ part: "webhooks", ...webhookSteps(webhooks, await server.webhooks(), options.prune, notes) });
  if (gate !== undefined && takes("gate")) {
    if (server.rights.isAdmin) {
      const isSame = equalJson(gate, await server.gate());
      parts.push({ part: "gate", steps: isSame ? [] : [{ do: "gate" }] });
    } else {
      const refusal = "gate: needs the user key of an OWNER or ADMIN; leave it out with --only";
      parts.push({ part: "gate", steps: [], refusals: [refusal] });
    }
  }
  return parts;
}

const sorted = (numbers: readonly number[]) => numbers.toSorted((one, other) => one - other);

/** Webhooks of the folder by address, each with the server's oldest of this address. */
export function pairWebhooks(wanted: readonly WebhookEntry[], existing: readonly ServerWebhook[]) {
  const rest = [...existing];
  const pairs = wanted.map((entry) => {
    const at = rest.findIndex(({ url }) => webhookAddress(url) === entry.url);
    return { entry, found: at < 0 ? undefined : rest.splice(at, 1)[0] };
  });
  return { pairs, rest };
}

/** Returns the fields of a webhook that differ. A suspended one counts as enabled. */
export function webhookDifference(
  { description, codes, enabled }: WebhookEntry,
  found: ServerWebhook,
): ("description" | "codes" | "enabled")[] {
  const isSame = {
    description: description === found.description,
    codes: equalJson(codes?.toSorted() ?? null, found.codes?.toSorted() ?? null),
    enabled: enabled === (found.state !== "disabled"),
  };
  return (["description", "codes", "enabled"] as const).filter((field) => !isSame[field]);
}

function webhookSteps(
  wanted: readonly WebhookEntry[],
  existing: readonly ServerWebhook[],
  prune: boolean,
  notes: string[],
): Pick<PartPlan, "steps" | "refusals"> {
  const { pairs, rest } = pairWebhooks(wanted, existing);
  // Each server has its own list of hosts that it allows over http.
  const refusals = pairs.flatMap(({ entry: { url }, found }) => {
    const problem = found === undefined ? webhookUrlProblem(url, isLocalHost) : undefined;
    return problem === undefined ? [] : [`webhooks: ${url}: ${problem}`];
  });
  if (refusals.length > 0) return { steps: [], refusals };
  const steps = pairs.flatMap(({ entry, found }): PartStep[] => {
    const { url } = entry;
    if (found === undefined) {
      // A new webhook is enabled.
      const disables: PartStep[] = entry.enabled ? [] : [{ do: "webhook.update", url, fields: ["enabled"] }];
      return [{ do: "webhook.create", url }, ...disables];
    }
    const fields = webhookDifference(entry, found);
    return fields.length === 0 ? [] : [{ do: "webhook.update", url, fields }];
  });
  if (prune) return { steps: [...steps, ...rest.map(({ url }): PartStep => ({ do: "webhook.delete", url }))] };
  notes.push(...rest.map(({ url }) => `The webhook ${url} is not in the folder: --prune deletes it`));
  return { steps };
}

/** Formats a step as a phrase. */
export function describePartStep(step: PartStep): string {
  switch (step.do) {
    case "gate":
      return "set the rules of the gate";
    case "alerts":
      return "set the thresholds of usage alerts";
    case "webhook.create":
      return `create the webhook ${step.url}`;
    case "webhook.delete":
      return `delete the webhook ${step.url}`;
    default:
      return `change ${step.fields.join(", ")} of the webhook ${step.url}`;
  }
}
