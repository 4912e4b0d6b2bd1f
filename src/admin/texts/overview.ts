export const overview = {
  title: "Overview",
  contracts: "Contracts",
  byState: "By state",
  near: "Users near a limit",
  nearLead: "Four fifths of a limit or more are used.",
  nobodyNear: "Nobody is near a limit.",
  limitsReached: "Limits reached",
  denials: "Denied features",
  versions: "Active versions",
  events: "What happened last",
  allEvents: "All events",
  startTitle: "Begin here",
  steps: {
    upload: "Upload your pricing",
    uploadText: "One YAML file says which plans there are and what they give. Try src/samples/tasker.yml.",
    key: "Create a key for your back end",
    keyText: "Of scope MANAGEMENT, so that it may contract users and ask for features.",
    contract: "Contract a user",
    contractText: "Your back end does it when somebody signs up; you can do it by hand.",
    ask: "Ask whether a feature is on",
    askText: "From your back end, or in your front end with the React library:",
  },
} as const;

export const denials = {
  title: "Denied features",
  lead: "How often your callers were told that somebody may not use a feature. Dry runs and questions about all features at once are not counted.",
  period: "Period",
  periods: { 24: "24 hours", 168: "7 days" },
  empty: "No feature was denied.",
  total: (count: string) => `${count} in all`,
  feature: "Feature",
  denials: "Denials",
  limitReached: "A limit was used up",
  notGranted: "Not in what is contracted",
} as const;

export const analytics = {
  title: "Analytics",
  lead: "Of the whole server, a day after midnight UTC.",
  calls: "Calls a day",
  evaluations: "Feature evaluations a day",
  asTable: "As a table",
  day: "Day",
  count: "Number",
  summary: (name: string, total: string) => `${name}: ${total} in seven days`,
} as const;

export const compatibility = {
  title: "Compatibility",
  lead: "Pages for endpoints that exist for older clients.",
  page: "Page",
  purpose: "Purpose",
  pages: {
    analytics: ["Analytics", "Calls and evaluations per day"],
    cache: ["Cache", "Read and write entries of the key-value store"],
  },
} as const;

export const cache = {
  title: "Cache",
  lead: "Small values that ADMINs keep on the server for a while.",
  get: "Read",
  set: "Write",
  key: "Key",
  value: "Value, as JSON",
  seconds: "Seconds to keep it",
  nothing: "There is nothing under this key.",
  noJson: "This is no JSON: texts need quotation marks.",
  stored: "It is stored.",
  found: "Value",
} as const;

export const health = {
  title: "Health",
  lead: "Asked from this browser, every ten seconds.",
  what: "What",
  state: "State",
  took: "Took",
  up: "up",
  down: "down",
  checks: { live: "Process", ready: "Database, schema and events", channel: "Event channel" },
  milliseconds: (count: string) => `${count} ms`,
  explain:
    "Asked of /live, /ready and the channel's own status, as a load balancer does: a process that is not ready gets no calls.",
} as const;

export const audit = {
  title: "Audit log",
  lead: "Who changed what, newest first. Owners and ADMINs see it.",
  when: "When",
  who: "Who",
  action: "Action",
  target: "Target",
  change: "Change",
  filterAction: "Action",
  filterTarget: "Target",
  empty: "No entry.",
  kinds: { user: "user", key: "key", anonymous: "nobody signed in" },
  details: "Before and after",
} as const;
