import type { PricingDiff } from "../../core/change/diff/diff.ts";
import type { Finding, Severity } from "../../core/change/finding.ts";
import type { Gate, Impact } from "./server.ts";
import type { ServiceStep } from "./steps.ts";

/** Parts of a folder, as `--only` names them. */
export const PARTS = ["services", "public", "gate", "alerts", "webhooks"] as const;
export type Part = (typeof PARTS)[number];

/** `nothing`: the server is as the folder says. `refused`: the folder must not be applied. */
export type Verdict = "nothing" | "changes" | "refused";

/** A finding with its file. */
export interface FileFinding extends Finding {
  readonly file: string;
}

/** Result of the expectations of a version that is uploaded, or whose expectations change. */
export interface ExpectationsReport {
  readonly pricingVersion: string;
  readonly met: number;
  /** One sentence per expectation that is not met. */
  readonly failed: readonly string[];
  /** Share of plans, features and limit edges that is covered; null for a pricing with too many. */
  readonly percent: number | null;
}

export interface ServicePlan {
  readonly name: string;
  readonly verdict: Verdict;
  readonly steps: readonly ServiceStep[];
  /** From the server's newest active version to the folder's; null if there is no other. */
  readonly diff: PricingDiff | null;
  readonly lint: readonly FileFinding[];
  readonly expectations: readonly ExpectationsReport[];
  /** Predictions of archiving and activating, by the server. */
  readonly impact: readonly Omit<Impact, "gate">[];
  readonly gate: Gate;
  readonly refusals: readonly string[];
}

export type PartStep =
  | { readonly do: "gate" }
  | { readonly do: "alerts" }
  | { readonly do: "webhook.create" | "webhook.delete"; readonly url: string }
  | { readonly do: "webhook.update"; readonly url: string; readonly fields: readonly string[] };

export interface PartPlan {
  readonly part: Exclude<Part, "services" | "public">;
  readonly steps: readonly PartStep[];
  /** Absent if there are none. */
  readonly refusals?: readonly string[];
}

/** Changes that make a server equal to a folder. Source: contract files-and-migration. */
export interface Plan {
  readonly organization: { readonly id: string; readonly name: string };
  readonly verdict: Verdict;
  readonly services: readonly ServicePlan[];
  readonly parts: readonly PartPlan[];
  readonly notes: readonly string[];
}

/** Choices of the caller. */
export interface PlanOptions {
  readonly only: readonly Part[] | undefined;
  readonly prune: boolean;
  readonly failOn: Severity | "never";
  /** True if a closed gate is no reason to refuse. */
  readonly overridesGate: boolean;
}

/** Lists every refusal of a plan. */
export const refusalsOf = ({ services, parts }: Plan): readonly string[] => [
  ...services.flatMap(({ refusals }) => refusals),
  ...parts.flatMap(({ refusals = [] }) => refusals),
];
