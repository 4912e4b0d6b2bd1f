import type { ChangeClass, Subject } from "../core/change/change.ts";
import type { FeatureComparison, LimitComparison } from "../core/change/compare.ts";
import type { Price } from "../core/change/configuration.ts";
import type { Effect } from "../core/change/effect.ts";
import type { Severity } from "../core/change/finding.ts";
import type { GateResult, GateRule } from "../core/change/impact/gate.ts";
import type { ImpactCounts } from "../core/change/impact/report.ts";
import type { VersionSuggestion } from "../core/change/diff/version-step.ts";
import type { EventDetails } from "../core/event-messages.ts";
import type { KeyScope, MemberRole, PlatformRole } from "../core/access/caller.ts";
import type { Feature, FeatureValue, LimitValue, Period, SubscriptionConstraints } from "../core/pricing/model.ts";

/*
 * What the HTTP interface answers, as the console reads it. test/admin/answers.test.ts holds each against the schema that the
 * server documents, so that neither can move alone.
 */

export interface User {
  username: string;
  role?: PlatformRole;
  apiKey?: string;
  createdAt: string;
}

export interface SignedIn {
  username: string;
  apiKey: string;
  role: PlatformRole;
}

export interface ApiKey {
  id: string;
  /** In clear for those who may use it, otherwise masked by asterisks. */
  key: string;
  scope: KeyScope;
}

export interface Organization {
  id: string;
  name: string;
  owner: string;
  default: boolean;
  apiKeys: ApiKey[];
  members: { username: string; role: MemberRole }[];
}

export interface Page<T> {
  data: T[];
  pagination?: { offset: number; limit: number; total: number; page: number; pages: number } | undefined;
}

export interface Service {
  id: string;
  name: string;
  organizationId: string;
  activePricings: Record<string, { id: string } | { url: string }>;
  archivedPricings?: Record<string, { id: string } | { url: string }> | undefined;
}

/** A service after an upload, with what is allowed in the pricing and does no good. */
export interface UploadedService extends Service {
  warnings: { severity: Severity; path: string; line: number; message: string }[];
  warningsComplete?: false | undefined;
}

export interface WirePlan {
  name: string;
  description?: string | undefined;
  price: number | string;
  private: boolean;
  features: Record<string, FeatureValue>;
  usageLimits: Record<string, LimitValue>;
}

export interface WireAddOn extends WirePlan {
  availableFor: string[];
  dependsOn: string[];
  excludes: string[];
  usageLimitsExtensions: Record<string, LimitValue>;
  subscriptionConstraints?: SubscriptionConstraints | undefined;
}

export interface WireLimit {
  name: string;
  description?: string | undefined;
  valueType: string;
  defaultValue: LimitValue;
  type: "RENEWABLE" | "NON_RENEWABLE";
  trackable: boolean;
  period?: Period | undefined;
  linkedFeatures: string[];
}

export interface WireFeature extends Pick<Feature, "name" | "valueType" | "defaultValue" | "render"> {
  description?: string | undefined;
  type: string;
  expression?: string | undefined;
  serverExpression?: string | undefined;
  tag?: string | undefined;
}

export interface WirePricing {
  version: string;
  currency: string;
  createdAt: string;
  url?: string | undefined;
  yamlPath?: string | undefined;
  features: Record<string, WireFeature>;
  usageLimits: Record<string, WireLimit>;
  plans: Record<string, WirePlan>;
  addOns: Record<string, WireAddOn>;
}

/** What is contracted: the same three maps in a contract, in its history, and in a novation. */
export interface Subscription {
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
}

export interface Contract extends Subscription {
  id: string;
  userContact: {
    userId: string;
    username: string;
    firstName?: string | undefined;
    lastName?: string | undefined;
    email?: string | undefined;
    phone?: string | undefined;
  };
  billingPeriod: { startDate: string; endDate: string; autoRenew: boolean; renewalDays: number };
  usageLevels: Record<string, Record<string, { consumed: number; resetTimeStamp?: string | undefined }>>;
  organizationId: string;
  groupId?: string | undefined;
  history: (Subscription & { startDate: string; endDate: string })[];
  /** Where a past moment was asked for. */
  asOf?: AsOf | undefined;
}

/** The state of a contract that an answer about a moment is made from. */
export interface AsOf {
  at: string;
  since: string;
  /** When that state was over; null while it lasts. */
  until: string | null;
  cause: "creation" | "novation" | "archiving" | "removal" | "move" | "rename" | "billing" | "renewal" | "record";
}

export interface FeatureAnswer {
  eval: boolean;
  limit: Record<string, number | boolean | null> | null;
  used: Record<string, number> | null;
  error: { code: string; message: string } | null;
  remaining?: Record<string, number | null> | null | undefined;
  resetAt?: Record<string, string | null> | null | undefined;
}

export interface Week {
  labels: string[];
  data: number[];
}

export interface Webhook {
  id: string;
  url: string;
  description: string | null;
  codes: string[] | null;
  state: "enabled" | "disabled" | "suspended";
  suspendedReason: string | null;
  failures: number;
  createdAt: string;
}

export interface Delivery {
  id: string;
  webhookId: string;
  eventId: number;
  code: string;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  nextAttemptAt: string | null;
  lastAttemptAt: string | null;
  responseStatus: number | null;
  durationMs: number | null;
  error: string | null;
  createdAt: string;
}

/** One event of the log, as the stream brings it. */
export interface LoggedEvent {
  id: number;
  code: string;
  details: EventDetails;
  createdAt: string;
}

export interface KeyDetails {
  id: string;
  name: string | null;
  scope: KeyScope;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
}

/** What an organization looks at first. */
export interface Overview {
  contracts: Record<"total" | "active" | "renewing" | "ending" | "expired", number>;
  near: {
    total: number;
    /** Those who are nearest, each with the limit that is used up most. */
    users: {
      userId: string;
      username: string;
      serviceName: string;
      limitName: string;
      consumed: number;
      limit: number;
      resetTimeStamp: string | null;
    }[];
  };
  limitsReached: { hours: number; total: number };
  denials: { hours: number; total: number };
  activeVersions: number;
}

export interface DenialReport {
  total: number;
  /** Those that were refused most. */
  features: { featureId: string; total: number; limitReached: number }[];
}

/** Who did something; without a name by the id, if there is anybody. */
export interface Doer {
  kind: "user" | "key" | "anonymous";
  id: string | null;
  name: string | null;
}

export interface AuditPage {
  data: {
    id: number;
    at: string;
    actor: Doer;
    action: string;
    target: string;
    before?: unknown;
    after?: unknown;
  }[];
  /** `before` of the next page; null on the last one. */
  next: number | null;
}

/** One difference between two versions. */
export interface Change {
  class: ChangeClass;
  subject: Subject;
  name: string;
  /** What of it: `presence`, `price`, `value`, `access`, `expression`, … */
  aspect: string;
  before?: unknown;
  after?: unknown;
  /** The plans with which it shows, and the fewest add-ons that it takes. */
  plans?: string[] | undefined;
  addOns?: Record<string, number> | undefined;
  /** How many configurations show it; absent for what does not depend on the configuration. */
  configurations?: number | undefined;
  mode?: "client" | "server" | undefined;
  unknown?: true | undefined;
}

export interface Diff {
  class: ChangeClass | null;
  counts: Record<ChangeClass, number>;
  changes: Change[];
  suggestion: VersionSuggestion;
  space: { plans: number; configurations: number; complete: boolean; capped: string[] };
}

/** What a contract has of one service. */
export interface Configuration {
  plan?: string | undefined;
  addOns: Record<string, number>;
}

/** Contracts that have the same of one version, and what a change does to them. */
export interface ImpactGroup {
  pricingVersion: string;
  configuration: Configuration;
  target: Configuration | null;
  problem: { rule: string; message: string } | null;
  counts: ImpactCounts;
  features: FeatureComparison[];
  limits: LimitComparison[];
  price: { before: PriceSum; after: PriceSum | null; effect: Effect };
  proposal: { target: Configuration; keepsEverything: boolean } | null;
}

type PriceSum = Pick<Price, "amount">;

export interface GateVerdict {
  passed: boolean;
  rules: GateResult[];
}

export interface ImpactReport {
  pricingVersion: string | null;
  targetVersion: string | null;
  usage: "kept" | "reset";
  counts: ImpactCounts;
  groups: ImpactGroup[];
  unforeseen: string[];
}

export interface Impact extends ImpactReport {
  gate: GateVerdict;
}

/** What a refusal says that a gate has caused. */
export interface ClosedGate extends GateVerdict {
  report: ImpactReport;
}

export interface Gate {
  rules: GateRule[];
}

/** What was known of a change of a service's pricings when it was made. */
export interface Decision {
  id: number;
  at: string;
  action: "archive" | "activate" | "disable" | "novation";
  pricingVersion: string | null;
  actor: Doer;
  rules: GateResult[];
  overrideReason: string | null;
  report: ImpactReport;
}

export interface DecisionPage {
  data: Decision[];
  next: number | null;
}
