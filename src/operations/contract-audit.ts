import { renewalPeriodOf } from "../core/period.ts";
import type { ContractView } from "../db/queries/contract-view.ts";
import type { contracts } from "../db/schema.ts";
import { auditAll, type AuditAction } from "./audit.ts";
import type { Context } from "./context.ts";

type ContractRow = typeof contracts.$inferSelect;

/** Selects the audited fields of a contract. History and balances have tables of their own. */
export function factsOf(view: ContractView) {
  const { userContact, billingPeriod, groupId, contractedServices, subscriptionPlans, subscriptionAddOns } = view;
  return { userContact, billingPeriod, groupId, contractedServices, subscriptionPlans, subscriptionAddOns };
}

/** Writes one audit entry per contract. */
export function auditContracts(
  ctx: Context,
  action: AuditAction,
  changes: readonly { organizationId: string; userId: string; before?: object | undefined; after?: object }[],
): Promise<void> {
  return auditAll(
    ctx,
    changes.map(({ organizationId, userId, before, after }) => ({
      action,
      organizationId,
      target: userId,
      before,
      after,
    })),
  );
}

/** Audits novations. The previous subscription is the newest history entry. */
export function auditNovations(ctx: Context, views: readonly ContractView[]): Promise<void> {
  return auditContracts(
    ctx,
    "contract.novate",
    views.map((view) => ({
      organizationId: view.organizationId,
      userId: view.userContact.userId,
      before: view.history.at(-1),
      after: factsOf(view),
    })),
  );
}

/** The audited billing fields of a row. */
export const billingOf = ({ startDate, endDate, autoRenew, renewalDays, ...row }: ContractRow) => ({
  startDate,
  endDate,
  autoRenew,
  renewalDays,
  renewalPeriod: renewalPeriodOf(row),
});

/** The audited contact fields of a row. */
export const contactOf = ({ username, firstName, lastName, email, phone }: ContractRow) => ({
  username,
  firstName,
  lastName,
  email,
  phone,
});
