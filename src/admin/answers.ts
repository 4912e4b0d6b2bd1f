import type { z } from "zod";
import type { EventDetails } from "../core/event-messages.ts";
import type * as auditLog from "../wire/audit-log.ts";
import type * as billing from "../wire/billing.ts";
import type { billingMessagePage, billingReplay } from "../wire/billing-messages.ts";
import type * as blocks from "../wire/blocks.ts";
import type * as budgets from "../wire/budgets.ts";
import type * as changes from "../wire/changes.ts";
import type { contractShown } from "../wire/contract-answers.ts";
import type * as failures from "../wire/failure.ts";
import type * as features from "../wire/features.ts";
import type * as usage from "../wire/usage.ts";
import type { usageAlerts } from "../wire/usage-alerts.ts";
import type { localEvaluation } from "../wire/local-evaluation.ts";
import type * as gates from "../wire/gate.ts";
import type { impact } from "../wire/impact.ts";
import type * as invitations from "../wire/invitations.ts";
import type * as members from "../wire/members.ts";
import type * as approvals from "../wire/approvals.ts";
import type * as holds from "../wire/holds.ts";
import type * as offers from "../wire/offers.ts";
import type { organizationKey } from "../wire/organization-keys.ts";
import type * as organizations from "../wire/organizations.ts";
import type * as overrides from "../wire/overrides.ts";
import type * as overviews from "../wire/overview.ts";
import type { pricing } from "../wire/pricings.ts";
import type * as recovery from "../wire/recovery.ts";
import type * as replays from "../wire/replay.ts";
import type * as scheduled from "../wire/scheduled.ts";
import type * as sessions from "../wire/sessions.ts";
import type * as signOn from "../wire/sign-on.ts";
import type * as services from "../wire/services.ts";
import type * as system from "../wire/system.ts";
import type * as users from "../wire/users.ts";
import type * as versionFiles from "../wire/version-files.ts";
import type * as webhooks from "../wire/webhooks.ts";

/* The answers of the HTTP interface that the console reads: types of the schemas in src/wire. */

export type UserPage = z.output<typeof users.userPage>;
export type User = UserPage["data"][number];
/** How people sign in here, and who is signed in. */
export type Visit = z.output<typeof signOn.signInMethods>;
export type SignedInUser = NonNullable<Visit["user"]>;
export type UserSession = z.output<typeof sessions.session>;

export type RecoveryLink = z.output<typeof recovery.recoveryLink>;
export type Invitation = z.output<typeof invitations.invitationListed>;
export type CreatedInvitation = z.output<typeof invitations.invitationCreated>;
export type InvitationOffer = z.output<typeof invitations.invitationOffer>;
export type AcceptedInvitation = z.output<typeof invitations.invitationAccepted>;
export type Approvals = z.output<typeof approvals.approvalsShown>;
export type ChangeRequest = z.output<typeof approvals.changeRequest>;

export type OrganizationPage = z.output<typeof organizations.organizationPage>;
export type Organization = OrganizationPage["data"][number];
export type ApiKey = Organization["apiKeys"][number];
export type KeyDetails = z.output<typeof organizationKey>;

export type Service = z.output<typeof services.service>;
/** A service after an upload, with warnings about valid but useless parts of the pricing. */
export type UploadedService = z.output<typeof services.serviceUploaded>;

/** A version of a pricing, as opposed to the model that core/pricing evaluates. */
export type WirePricing = z.output<typeof pricing>;
export type VersionFile = z.output<typeof versionFiles.versionFile>;
export type WireFeature = WirePricing["features"][string];
export type WireLimit = WirePricing["usageLimits"][string];
export type WirePlan = WirePricing["plans"][string];
export type WireAddOn = WirePricing["addOns"][string];

export type PublicOffer = z.output<typeof offers.publicOffer>;

/** A contract; the console adds its balances where it has read them. */
export type Contract = z.output<typeof contractShown> & { balances?: readonly Balance[] };
/** The three subscription maps that a contract, its history and a novation share. Contracts also have overrides and blocks. */
export type Subscription = Pick<
  Contract,
  "contractedServices" | "subscriptionPlans" | "subscriptionAddOns" | "overrides" | "balances"
>;
/** A counted limit with what its plan grants, and its open blocks. */
export type Balance = z.output<typeof blocks.balances>[number];
export type BillingConnection = z.output<typeof billing.billingConnection>;
export type BillingProblem = BillingConnection["problems"][number];
export type MappedPrice = BillingConnection["prices"][string];
export type BillingMessagePage = z.output<typeof billingMessagePage>;
export type BillingMessage = BillingMessagePage["data"][number];
export type BillingReplay = z.output<typeof billingReplay>;
export type BlockPage = z.output<typeof blocks.blockPage>;
export type Block = BlockPage["data"][number];
export type TeamPage = z.output<typeof members.memberPage>;
/** A member of a contract's team, with what it used. */
export type TeamMember = TeamPage["data"][number];
export type TeamCounts = z.output<typeof members.memberCounts>;
export type BudgetList = z.output<typeof budgets.budgetList>;
export type Budget = BudgetList["data"][number];
export type BudgetTerms = z.output<typeof budgets.newBudget>;
export type Override = z.output<typeof overrides.override>;
export type HoldPage = z.output<typeof holds.holdPage>;
export type Trial = NonNullable<Contract["trial"]>;
export type ScheduledChange = z.output<typeof scheduled.scheduledChange>;
/** The contract state that applied at a requested past moment. */
export type AsOf = NonNullable<Contract["asOf"]>;

export type FeatureAnswer = z.output<typeof features.featureAnswer>;
export type Week = z.output<typeof system.week>;
export type Webhook = z.output<typeof webhooks.webhook>;
export type Delivery = z.output<typeof webhooks.delivery>;

/** One event of the log, as the event stream sends it. */
export interface LoggedEvent {
  id: number;
  code: string;
  details: EventDetails;
  createdAt: string;
}

export type Overview = z.output<typeof overviews.overview>;
export type Trends = z.output<typeof overviews.trends>;
export type DenialReport = z.output<typeof overviews.denialReport>;
export type AuditPage = z.output<typeof auditLog.auditPage>;

export type Diff = z.output<typeof changes.diff>;
/** One difference between two pricing versions. */
export type Change = Diff["changes"][number];

export type Impact = z.output<typeof impact>;
export type ImpactReport = Omit<Impact, "gate">;
/** Contracts with the same version and configuration, and the effect of a change on them. */
export type ImpactGroup = Impact["groups"][number];
/** A contract's plan and add-ons for one service. */
export type Configuration = ImpactGroup["configuration"];
export type GateVerdict = Impact["gate"];
export type ReplayReport = z.output<typeof replays.replayReport>;
export type ReplayGroup = ReplayReport["groups"][number];
/** Body of a response that a closed gate caused. */
export type ClosedGate = NonNullable<z.output<typeof failures.failure>["gate"]>;
export type Gate = z.output<typeof gates.gate>;
export type LocalEvaluation = z.output<typeof localEvaluation>;
export type UsageAlerts = z.output<typeof usageAlerts>;
type UsageRow = z.output<typeof usage.organizationUsage | typeof usage.contractUsage>["data"][number];
/** Sums of one limit on one day. */
export type UsageBucket = Extract<UsageRow, { cleared: number }>;
export type UnitUsage = Extract<UsageRow, { unit: string }>;
export type FeatureUsage = Exclude<
  Extract<UsageRow, { featureId: string | null }>,
  { kind: string } | { unit: string }
>;
export type SpenderUsage = Extract<UsageRow, { spender: string }>;
export type UserUsage = Exclude<Extract<UsageRow, { userId: string | null }>, { blockId: string }>;
/** One change of a balance, or usage that was recorded late. */
export type Movement = Extract<UsageRow, { kind: string }>;
/** A report of usage with rows of one kind. */
export type UsageReport<Row> = Omit<z.output<typeof usage.contractUsage>, "data"> & { data: Row[] };
export type UsageTotal = UsageReport<never>["totals"][number];
export type DecisionPage = z.output<typeof changes.decisionPage>;
/** Log entry of a change to a service's pricings: gate results and impact report at that time. */
export type Decision = DecisionPage["data"][number];
