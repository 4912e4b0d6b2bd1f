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
 * Response bodies of the HTTP interface, as the console reads them. test/admin/answers.test.ts checks each against the
 * server's OpenAPI schema, so neither side can change alone.
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
  /** Unmasked for users who may use the key; otherwise masked with asterisks. */
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

/** A service after an upload, with warnings about valid but useless parts of the pricing. */
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

/** The three subscription maps that a contract, its history and a novation share. */
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
  /** Present when the request named a past moment. */
  asOf?: AsOf | undefined;
}

/** The contract state that applied at a requested past moment. */
export interface AsOf {
  at: string;
  since: string;
  /** End of that state; null while it is current. */
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

/** One event of the log, as the event stream sends it. */
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

/** Figures for an organization's overview page. */
export interface Overview {
  contracts: Record<"total" | "active" | "renewing" | "ending" | "expired", number>;
  near: {
    total: number;
    /** Users closest to a limit, each with the limit they have used most. */
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
  /** Features with the most denials. */
  features: { featureId: string; total: number; limitReached: number }[];
}

/** The actor of a recorded action. Clients without a name are identified by `id`, if they have one. */
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
  /** Value of `before` for the next page; null on the last page. */
  next: number | null;
}

/** One difference between two pricing versions. */
export interface Change {
  class: ChangeClass;
  subject: Subject;
  name: string;
  /** The part that changed: `presence`, `price`, `value`, `access`, `expression`, … */
  aspect: string;
  before?: unknown;
  after?: unknown;
  /** Plans that show the difference, with the smallest set of add-ons that reveals it. */
  plans?: string[] | undefined;
  addOns?: Record<string, number> | undefined;
  /** Number of configurations that show the difference; undefined if it does not depend on the configuration. */
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

/** A contract's plan and add-ons for one service. */
export interface Configuration {
  plan?: string | undefined;
  addOns: Record<string, number>;
}

/** Contracts with the same version and configuration, and the effect of a change on them. */
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

/** Body of a response that a closed gate caused. */
export interface ClosedGate extends GateVerdict {
  report: ImpactReport;
}

export interface Gate {
  rules: GateRule[];
}

/** Log entry of a change to a service's pricings: gate results and impact report at that time. */
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
