import { createdWith, dateOf, isRecord, shown } from "./documents.ts";
import type { PlannedContract } from "./planned-contract.ts";
import type { Findings, Subject } from "./report.ts";
import { DETAILS, REPAIRS } from "./reported.ts";

const USUAL_RENEWAL_DAYS = 30;
const MAX_RENEWAL_DAYS = 2 ** 31 - 1;

/** Plans the billing period of a contract, and reports what of it was repaired. */
export function billingPeriodOf(value: unknown, subject: Subject, findings: Findings): PlannedContract["billing"] {
  const given = isRecord(value) ? value : {};
  const repaired: string[] = [];
  const days = given["renewalDays"];
  const isUsable = typeof days === "number" && Number.isInteger(days) && days >= 1 && days <= MAX_RENEWAL_DAYS;
  if (!isUsable) repaired.push(DETAILS.repaired("renewalDays", `${shown(days)} becomes ${USUAL_RENEWAL_DAYS}`));
  const start = dateOf(given["startDate"]);
  const startDate = start ?? dateOf(given["endDate"]) ?? createdWith(subject.id);
  if (start === undefined) repaired.push(DETAILS.repaired("startDate", `becomes ${startDate.toISOString()}`));
  const end = dateOf(given["endDate"]);
  const endDate = end !== undefined && end.getTime() >= startDate.getTime() ? end : startDate;
  if (endDate !== end) repaired.push(DETAILS.repaired("endDate", `becomes ${endDate.toISOString()}`));
  const autoRenew = given["autoRenew"];
  if (autoRenew !== undefined && autoRenew !== null && typeof autoRenew !== "boolean") {
    repaired.push(DETAILS.repaired("autoRenew", `${shown(autoRenew)} becomes false`));
  }
  if (repaired.length > 0) findings.change("billing-repaired", subject, repaired.join(REPAIRS));
  return {
    startDate,
    endDate,
    autoRenew: autoRenew === true,
    renewalDays: isUsable ? days : USUAL_RENEWAL_DAYS,
  };
}
