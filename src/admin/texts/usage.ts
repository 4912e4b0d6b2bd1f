/** Texts of the record of usage: the organization's page, and the tab of a contract. */
export const usage = {
  title: "Usage",
  lead: "What was counted, by day, feature and person",
  limit: "Limit",
  service: "Service",
  period: "Period",
  periods: { 7: "7 days", 30: "30 days", 90: "90 days", 365: "12 months" },
  last30: "Last 30 days",
  exportCsv: "Export CSV",
  exports: { day: "By day", feature: "By feature", user: "By person" },
  empty: "Nothing was counted in this period.",
  noLimits: "No limit of this contract is counted.",
  trend: (limit: string, service: string) => `${limit} of ${service}`,
  counted: "Counted",
  cleared: "Cleared by resets",
  late: "Late",
  lateTotal: (amount: string) => `${amount} recorded late, after the period had ended`,
  byFeature: "By feature",
  byUser: "By person",
  top: (rows: string) => `The first ${rows}`,
  feature: "Feature",
  share: "Share",
  byHand: "Adjusted by hand",
  noneYet: "Nothing counted",
  movements: "Movements",
  movementsLead: "Everything that moved a balance, newest first",
  noMovements: "Nothing has moved yet.",
  when: "When",
  kind: "What",
  amount: "Amount",
  operation: "Operation",
  recorded: (moment: string) => `Recorded ${moment}`,
  more: "Show earlier movements",
  kinds: {
    consume: "Counted",
    revert: "Reverted",
    adjust: "Adjusted",
    reset: "Reset",
    renew: "Renewed",
    remove: "Removed",
    late: "Late, not counted",
  },
} as const;

/** Texts of the back ends that evaluate in their own memory. */
export const localEvaluation = {
  title: "Local evaluation",
  lead: "Back ends that evaluate in their own memory, with faregate/local",
  evaluators: (count: string) =>
    count === "0"
      ? "No evaluator is connected."
      : `${count} ${count === "1" ? "evaluator is" : "evaluators are"} connected.`,
  leases: (count: string) =>
    count === "0" ? "No lease is open." : `${count} ${count === "1" ? "lease is" : "leases are"} open.`,
  held: "Held by open leases",
  service: "Service",
  limit: "Limit",
  open: "Open leases",
  amount: "Amount held",
} as const;
