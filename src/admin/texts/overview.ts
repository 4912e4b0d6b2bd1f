export const overview = {
  title: "Overview",
  contracts: "Contracts",
  near: "Near a limit",
  nearLead: "80% or more of a limit is used",
  nobodyNear: "Nobody is near a limit.",
  attention: "Needs attention",
  review: "Review",
  webhookSuspended: (host: string) => `Webhook ${host} is suspended`,
  limitsReached: (count: string) => (count === "1" ? "1 limit was reached" : `${count} limits were reached`),
  lastHours: (hours: string) => `In the last ${hours} hours`,
  ending: (count: string) => (count === "1" ? "1 contract ends within 7 days" : `${count} contracts end within 7 days`),
  endingLead: "They do not renew automatically.",
  drafts: (count: string) => (count === "1" ? "1 draft is not saved" : `${count} drafts are not saved`),
  inVersions: (versions: string, services: string) =>
    `in ${versions} active ${versions === "1" ? "version" : "versions"} of ${services} ${services === "1" ? "service" : "services"}`,
  allContracts: "All contracts",
  allNear: "All near a limit",
  allDenials: "All denials",
  deniedMost: "Denied most, last 7 days",
  events: "Recent activity",
  allEvents: "All events",
  startTitle: "Get started",
  steps: {
    upload: "Upload your pricing",
    uploadText: "One YAML file lists your plans and what each includes. Try src/samples/tasker.yml.",
    key: "Create a key for your back end",
    keyText: "With scope MANAGEMENT it can create contracts and check features.",
    contract: "Create a contract",
    contractText: "Your back end does it when somebody signs up. You can also do it by hand.",
    ask: "Check a feature",
    askText: "From your back end, or in your front end with the React library:",
  },
} as const;

export const denials = {
  title: "Denials",
  lead: "How often a feature was denied. Dry runs and checks of all features are not counted.",
  period: "Period",
  periods: { 24: "24 hours", 168: "7 days" },
  empty: "No feature was denied.",
  total: (count: string) => `${count} in total`,
  feature: "Feature",
  denials: "Denials",
  limitReached: "Limit reached",
  notGranted: "Not in the plan",
} as const;

export const analytics = {
  title: "Traffic",
  lead: "Whole server, by UTC day",
  calls: "Calls per day",
  evaluations: "Feature evaluations per day",
  asTable: "Show as table",
  day: "Day",
  count: "Number",
  summary: (name: string, total: string) => `${name}: ${total} in seven days`,
} as const;

export const cache = {
  title: "Cache",
  lead: "Values stored on the server for a limited time",
  get: "Read",
  set: "Write",
  key: "Key",
  value: "Value, as JSON",
  seconds: "Seconds to keep it",
  nothing: "No value is stored for this key.",
  noJson: "Not valid JSON. Put text in quotes.",
  stored: "Value stored",
  found: "Value",
} as const;

export const health = {
  title: "Health",
  lead: "Checked every 10 seconds from this browser",
  what: "Check",
  state: "State",
  took: "Time",
  up: "Up",
  down: "Down",
  checks: { live: "Process", ready: "Database, schema and events", channel: "Event channel" },
  milliseconds: (count: string) => `${count} ms`,
  explain:
    "Checks /live, /ready and the event channel, as a load balancer does. A process that is not ready gets no calls.",
} as const;

export const audit = {
  title: "Activity log",
  lead: "Who changed what, newest first. Owners and admins can see it.",
  when: "When",
  who: "Who",
  action: "What",
  target: "On",
  change: "Details",
  filterAction: "What",
  filterTarget: "On",
  empty: "No activity matches.",
  kinds: { user: "user", key: "key", anonymous: "Not signed in" },
  details: "Before and after",
} as const;
