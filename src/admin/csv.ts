import type { Contract } from "./answers.ts";

const COLUMNS = "userId,username,email,firstName,lastName,groupId,services,plans,addOns,startDate,endDate,autoRenew";

/** Writes one CSV line per contract. Cells that a spreadsheet would run as formulas get a leading quote. */
export function csvOf(contracts: readonly Contract[]): string {
  const lines = contracts.map(({ userContact, billingPeriod, ...contract }) =>
    [
      userContact.userId,
      userContact.username,
      userContact.email,
      userContact.firstName,
      userContact.lastName,
      contract.groupId,
      pairs(contract.contractedServices),
      pairs(contract.subscriptionPlans),
      Object.entries(contract.subscriptionAddOns)
        .flatMap(([service, addOns]) => Object.entries(addOns).map(([name, count]) => `${service}:${name}=${count}`))
        .join("; "),
      billingPeriod.startDate,
      billingPeriod.endDate,
      String(billingPeriod.autoRenew),
    ]
      .map(cell)
      .join(","),
  );
  return [COLUMNS, ...lines].join("\r\n");
}

const pairs = (map: Record<string, string>): string =>
  Object.entries(map)
    .map(([name, value]) => `${name}:${value}`)
    .join("; ");

function cell(text: string | undefined = ""): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
