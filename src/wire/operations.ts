import { NO_ORGANIZATION } from "./common.ts";
import { approvalOperations } from "./approvals.ts";
import { auditLogOperations } from "./audit-log.ts";
import { billingOperations, contractBillingOperations } from "./billing.ts";
import { billingMessageOperations } from "./billing-messages.ts";
import { changeOperations } from "./changes.ts";
import { contractDetailOperations, contractOperations } from "./contracts.ts";
import { eventOperations } from "./events.ts";
import { featureOperations } from "./features.ts";
import { gateOperations } from "./gate.ts";
import { blockOperations, organizationBlockOperations } from "./blocks.ts";
import { budgetOperations } from "./budgets.ts";
import { contractHoldOperations, holdOperations } from "./holds.ts";
import { leaseOperations } from "./leases.ts";
import { localEvaluationOperations } from "./local-evaluation.ts";
import { memberOperations } from "./members.ts";
import { offerOperations, publicOfferOperations } from "./offers.ts";
import { unlockOperations } from "./unlock.ts";
import { ofrepOperations } from "./ofrep.ts";
import { invitationOperations } from "./invitations.ts";
import type { Operation } from "./operation.ts";
import { overrideOperations } from "./overrides.ts";
import { organizationKeyOperations } from "./organization-keys.ts";
import { organizationOperations } from "./organizations.ts";
import { overviewOperations } from "./overview.ts";
import { pricingOperations } from "./pricings.ts";
import { recoveryOperations } from "./recovery.ts";
import { replayOperations } from "./replay.ts";
import { scheduledOperations, serviceScheduledOperations } from "./scheduled.ts";
import { sessionOperations } from "./sessions.ts";
import { signOnOperations } from "./sign-on.ts";
import { serviceOperations } from "./services.ts";
import { snapshotOperations } from "./snapshot.ts";
import { systemOperations } from "./system.ts";
import { usageOperations, usageReportOperations } from "./usage.ts";
import { usageAlertOperations } from "./usage-alerts.ts";
import { userOperations } from "./users.ts";
import { versionFileOperations } from "./version-files.ts";
import { webhookOperations } from "./webhooks.ts";

/**
 * Returns the operation inside one organization, where members call it with their user key. Its id ends in
 * `InOrganization`.
 */
const insideOrganization = (operation: Operation): Operation => ({
  ...operation,
  id: `${operation.id}InOrganization`,
  path: `/organizations/{organizationId}${operation.path}`,
  summary: `${operation.summary} in an organization`,
  description: `${operation.description} Members call it with their user key.`,
  errors: { 404: NO_ORGANIZATION, ...operation.errors },
});

/**
 * Every operation of the HTTP interface. Literal paths precede parameters. A test holds the list against the router, in
 * both directions.
 */
export const OPERATIONS: readonly Operation[] = [
  ...featureOperations,
  ...unlockOperations,
  ...snapshotOperations,
  ...holdOperations,
  ...leaseOperations,
  ...usageOperations,
  ...usageReportOperations,
  ...usageReportOperations.map(insideOrganization),
  ...contractDetailOperations,
  ...contractOperations,
  ...contractOperations.map(insideOrganization),
  ...overrideOperations,
  ...overrideOperations.map(insideOrganization),
  ...contractHoldOperations,
  ...contractHoldOperations.map(insideOrganization),
  ...blockOperations,
  ...blockOperations.map(insideOrganization),
  ...organizationBlockOperations,
  ...memberOperations,
  ...memberOperations.map(insideOrganization),
  ...budgetOperations,
  ...budgetOperations.map(insideOrganization),
  ...scheduledOperations,
  ...scheduledOperations.map(insideOrganization),
  ...serviceScheduledOperations,
  ...serviceScheduledOperations.map(insideOrganization),
  ...serviceOperations,
  ...serviceOperations.map(insideOrganization),
  ...pricingOperations,
  ...pricingOperations.map(insideOrganization),
  ...versionFileOperations,
  ...versionFileOperations.map(insideOrganization),
  ...offerOperations,
  ...offerOperations.map(insideOrganization),
  ...publicOfferOperations,
  ...changeOperations,
  ...changeOperations.map(insideOrganization),
  ...replayOperations,
  ...replayOperations.map(insideOrganization),
  ...gateOperations,
  ...approvalOperations,
  ...eventOperations,
  ...usageAlertOperations,
  ...localEvaluationOperations,
  ...contractBillingOperations,
  ...contractBillingOperations.map(insideOrganization),
  ...billingOperations,
  ...billingMessageOperations,
  ...webhookOperations,
  ...webhookOperations.map(insideOrganization),
  ...ofrepOperations,
  ...organizationOperations,
  ...organizationKeyOperations,
  ...overviewOperations,
  ...invitationOperations,
  ...recoveryOperations,
  ...userOperations,
  ...sessionOperations,
  ...signOnOperations,
  ...auditLogOperations,
  ...systemOperations,
];
