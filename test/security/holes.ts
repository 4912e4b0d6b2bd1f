/** Test that shows a hole to be closed: a file below test/ and a part of its title. */
export interface Proof {
  file: string;
  title: string;
}

/** Defects of the reference service, by row of the audit, each with the test that would fail here. */
export type Hole = [id: string, hole: string, proofs: readonly Proof[]];

const at = (file: string, title: string): Proof => ({ file, title });
const closed = (title: string) => at("security/closed.pg.test.ts", title);
const chains = (title: string) => at("security/chains.pg.test.ts", title);
const hostile = (title: string) => at("core/pricing/hostile.slow.test.ts", title);
const matrix = at("security/tenants.fault.test.ts", "%s");
const fuzz = at("security/fuzz.fault.test.ts", "nothing that is sent to %s is answered with 5xx");

export const HOLES: readonly Hole[] = [
  ["K1", "anonymous runs code", [chains("K1:")]],
  ["K2", "anonymous reads every tenant's key", [chains("K2:")]],
  ["K3", "USER becomes platform ADMIN", [chains("K3:")]],
  ["K4", "USER ends the process", [chains("K4:")]],
  ["K5", "USER takes over another account", [chains("K5:")]],
  ["K6", "a MANAGEMENT key poisons the process", [chains("K6:")]],
  ["K7", "an end user has unlimited usage", [chains("K7:")]],

  [
    "A1",
    "expressions are evaluated as code",
    [
      chains("K1:"),
      hostile("hostile expressions"),
      at("core/pricing/properties.slow.test.ts", "refuses or evaluates any text without effect"),
    ],
  ],
  ["A2", "prices are evaluated as code", [chains("K1:")]],
  [
    "A3",
    "service names are pasted into code",
    [
      chains("K1:"),
      at("http/services-access.pg.test.ts", "names that contain words of errors, quotes and code are names"),
    ],
  ],
  ["A4", "expressions without a bound", [hostile("hostile expressions"), hostile("a text cannot grow without bound")]],
  [
    "A5",
    "variables become regular expressions",
    [hostile("%s: costs at most 25 times an ordinary pricing of 256 KB"), chains("K1:")],
  ],
  ["A6", "aliases are expanded", [hostile("an alias bomb"), hostile("a chain of merges")]],
  ["A7", "nesting without a bound", [hostile("the parser survives deep nesting again and again")]],
  ["A8", "names that are prototypes", [hostile("hostile names reach no prototype")]],
  [
    "A9",
    "uploads without limits that stay on disk",
    [
      at("http/request-parsing.pg.test.ts", "a file of exactly 2 MB is read, one byte more is File too large"),
      at("http/request-parsing.pg.test.ts", "an upload that is broken off leaves nothing and harms nobody"),
    ],
  ],
  [
    "A10",
    "pricings are fetched from anywhere",
    [
      at(
        "http/download.e2e.test.ts",
        "a body of the limit is taken, one byte more is not, and an endless one is not read on",
      ),
      at("entries/download.test.ts", "%s is not an address of the public internet"),
      at("entries/download.test.ts", "cannot redirect to one that is not"),
      at("http/download.e2e.test.ts", "one that nobody vouches for is refused, whatever the environment says"),
    ],
  ],
  [
    "A11",
    "terms change when a remote file does",
    [at("http/pricings-url.pg.test.ts", "what was fetched is never fetched again")],
  ],
  [
    "A12",
    "a path instead of an address is read from disk",
    [
      closed("A12:"),
      at("http/pricings.pg.test.ts", "a guessed path outside of what was uploaded answers 404"),
      at("entries/download.test.ts", "what is not fetched"),
    ],
  ],
  [
    "A13",
    "refused uploads overwrite published files",
    [
      at("http/services.pg.test.ts", "a refused upload leaves the published text of the existing version as it is"),
      at("http/pricings.pg.test.ts", "two names that normalise alike do not share a text"),
    ],
  ],
  [
    "A14",
    "parallel uploads remove each other's folder",
    [at("http/services-races.pg.test.ts", "twenty uploads of distinct services at once are all created")],
  ],

  [
    "B1",
    "any user reads any organization",
    [at("http/organizations.pg.test.ts", "is refused to a USER outside of it, keys included (K2)"), matrix],
  ],
  [
    "B2",
    "keys in every answer",
    [
      at(
        "http/organizations-keys.pg.test.ts",
        "%s is shown keys of the scopes %j and the others masked, in every answer",
      ),
      matrix,
    ],
  ],
  [
    "B3",
    "contracts are looked up by user alone",
    [at("http/contracts-isolation.pg.test.ts", "looks exactly like nobody's"), matrix],
  ],
  [
    "B4",
    "one end user for all organizations",
    [at("http/contracts-isolation.pg.test.ts", "with the same userId in two organizations counts apart")],
  ],
  [
    "B5",
    "cache keys without an organization and case",
    [at("http/contracts-isolation.pg.test.ts", "each has its own contract, balance, evaluation and token")],
  ],
  [
    "B6",
    "a cached token before any check",
    [
      at("http/tokens.pg.test.ts", "a token of one organization has nothing of another one's contract"),
      at("http/tokens.pg.test.ts", "the server flag asks the server's expressions, and the two never mix"),
    ],
  ],
  [
    "B7",
    "another organization's contract with one's own pricing",
    [matrix, at("http/ofrep.pg.test.ts", "of another organization know none of its users")],
  ],
  [
    "B8",
    "pruning one organization prunes all",
    [at("http/services-contracts.pg.test.ts", "inside an organization, a platform ADMIN prunes only that one"), matrix],
  ],
  [
    "B9",
    "pruning without naming an organization",
    [
      at("http/services-contracts.pg.test.ts", "an empty organizationId, as an unset variable makes it, is refused"),
      at("http/contracts.pg.test.ts", "all contracts empties the organization only"),
    ],
  ],
  [
    "B10",
    "services are pushed into foreign organizations",
    [
      at(
        "http/services-contracts.pg.test.ts",
        "an organization key may not push a service into somebody else's organization",
      ),
      at("http/services-contracts.pg.test.ts", "the owner of both and a platform ADMIN may"),
    ],
  ],
  [
    "B11",
    "deletions by name in all organizations",
    [at("http/services.pg.test.ts", "the same name in another organization is another service"), matrix],
  ],
  [
    "B12",
    "the public channel names every tenant's services",
    [
      at("events/replay.pg.test.ts", "a key narrows the channel to its organization's events"),
      at("events/replay.pg.test.ts", "what concerns end users is never on the channel"),
    ],
  ],
  [
    "B13",
    "analytics are global",
    [
      closed("B13:"),
      at("http/system.pg.test.ts", "shows every kind of caller the same series, and nobody without a key"),
    ],
  ],

  [
    "C1",
    "keys in clear at rest",
    [
      at(
        "operations/credentials.test.ts",
        "another secret neither finds nor opens them, so a stolen dump authenticates nobody (C1)",
      ),
      at("http/users.pg.test.ts", "keeps no key and no password in clear at rest"),
    ],
  ],
  [
    "C2",
    "keys never end",
    [
      at("http/key-rotation.pg.test.ts", "an organization key works until the moment that it was given"),
      at("http/key-rotation.pg.test.ts", "the last use of a key is written"),
    ],
  ],
  [
    "C3",
    "keys in paths and logs",
    [
      at("http/organizations-keys.pg.test.ts", "no key of anybody is ever in the log"),
      at("entries/operation.e2e.test.ts", "no password, key, token or secret gets into the log"),
    ],
  ],
  [
    "C4",
    "sign-up chooses its own key and role",
    [
      at("http/users.pg.test.ts", "stores nothing of the body but name, password and role (D5)"),
      at("http/limits.pg.test.ts", "are counted together, across processes"),
    ],
  ],
  [
    "C5",
    "sign-in tells who exists",
    [
      at("http/users.pg.test.ts", "takes as long for an unknown user as for a wrong password"),
      at("http/users.pg.test.ts", "answers the same for an unknown user and a wrong password"),
    ],
  ],
  [
    "C6",
    "no limit on guessing, short and cut passwords",
    [
      at("http/users-sign-in.pg.test.ts", "the eleventh attempt for a name within a minute is 429"),
      at("operations/credentials.test.ts", "passwords that differ after the 72nd byte"),
      at("http/users.pg.test.ts", "a password over 256 bytes is refused before it is hashed"),
    ],
  ],
  [
    "C7",
    "the first sign-in without a key has none",
    [at("http/users.pg.test.ts", "gives a user without a key a new one, and it works")],
  ],
  [
    "C8",
    "names that shadow routes",
    [
      at("http/features.pg.test.ts", "evaluate is a userId like any other"),
      at("http/contracts-isolation.pg.test.ts", "billingPeriod is reserved in PUT at the top level only"),
    ],
  ],
  [
    "C9",
    "rights hang on names",
    [at("http/users-deletion.pg.test.ts", "who signs up under a freed name has no rights of the one before (C9)")],
  ],
  [
    "C10",
    "default secrets forge tokens",
    [
      at("entries/config.test.ts", "missing ones are named in one sentence"),
      at("http/tokens.pg.test.ts", "a token is verified: one of this server"),
    ],
  ],
  [
    "C11",
    "secrets in the start-up log",
    [at("entries/operation.e2e.test.ts", "no password, key, token or secret gets into the log")],
  ],

  [
    "D1",
    "any USER changes any USER",
    [at("http/users.pg.test.ts", "a USER can neither rename, re-password, re-key nor delete another USER (K5)")],
  ],
  [
    "D2",
    "update operators in bodies",
    [chains("K3:"), at("http/users.pg.test.ts", "a form cannot smuggle a role either (K3)")],
  ],
  [
    "D3",
    "deleting an owner promotes an EVALUATOR",
    [
      chains("K5:"),
      at("core/access/membership.test.ts", "an organization passes to the first ADMIN, else MANAGER, else EVALUATOR"),
    ],
  ],
  [
    "D4",
    "raw bodies update organizations",
    [at("http/organizations.pg.test.ts", "takes nothing but name, owner and default from the body (D5, D4)")],
  ],
  [
    "D5",
    "members raise each other",
    [
      at("http/organizations-members.pg.test.ts", "adding a member (§5.2)"),
      at("http/organizations-members.pg.test.ts", "changing a member's role (§5.3)"),
      at("core/access/membership.test.ts", "adds a member with role %s or is refused"),
    ],
  ],
  [
    "D6",
    "contact updates rename contracts",
    [at("http/contracts.pg.test.ts", "takes the given fields and keeps the others, the userId whatever is sent")],
  ],
  [
    "D7",
    "billing updates write any date",
    [at("http/contracts.pg.test.ts", "takes the given fields, never the start date")],
  ],
  [
    "D8",
    "EVALUATION keys cannot evaluate",
    [at("http/features.pg.test.ts", "by an EVALUATION key counts like by any other"), matrix],
  ],
  [
    "D9",
    "routes without a rule",
    [
      at("http/permissions.pg.test.ts", "every route of the application has a rule in the permission table"),
      at("security/tenants.fault.test.ts", "every operation has a row, and every row an operation"),
    ],
  ],
  [
    "D10",
    "check then write",
    [
      at("http/users-deletion.pg.test.ts", "two ADMINs who demote each other, or themselves, leave one, 20 times"),
      at("http/organizations.pg.test.ts", "of eight default organizations created at once one is"),
    ],
  ],

  [
    "E1",
    "parallel consumption is lost",
    [
      at("http/usage-races.pg.test.ts", "64 callers who consume 10 times each count exactly 640"),
      at("support/usage-through-many.ts", "consumers of one contract through several processes"),
    ],
  ],
  [
    "E2",
    "two limits overwrite each other",
    [at("http/usage-races.pg.test.ts", "two limits of one feature move together, in whatever company")],
  ],
  [
    "E3",
    "the amount is not looked at",
    [
      chains("K7:"),
      at("http/features.pg.test.ts", "a strict call counts what fits and refuses what would pass a limit"),
    ],
  ],
  [
    "E4",
    "negative amounts",
    [chains("K7:"), at("http/usage-model.slow.test.ts", "whatever moves a balance in whatever order")],
  ],
  ["E5", "zero is taken for nothing", [at("http/features.pg.test.ts", "takes zero as given, and fractions exactly")]],
  [
    "E6",
    "half of a consumption stays",
    [
      at("http/features.pg.test.ts", "of two limits counts both or none, and needs an amount for both"),
      at("faults/usage.fault.test.ts", "and of Postgres under load no acknowledged unit is lost"),
    ],
  ],
  [
    "E7",
    "two in one millisecond fail",
    [at("http/usage-races.pg.test.ts", "64 callers who consume 10 times each count exactly 640")],
  ],
  [
    "E8",
    "reverting restores an old total",
    [
      at("http/usage-races.pg.test.ts", "in the company of others takes back each consumption at most once"),
      at("http/features.pg.test.ts", "leaves what others did meanwhile, and does not go below zero"),
    ],
  ],
  [
    "E9",
    "retries count twice",
    [at("http/usage-idempotency.pg.test.ts", "a consumption sent again counts once and gets the first answer")],
  ],
  [
    "E10",
    "dashes in names",
    [at("http/features.pg.test.ts", "works where service, feature and limit have dashes in their names")],
  ],
  [
    "E11",
    "a renewal that is never stored",
    [
      chains("K7:"),
      at(
        "http/usage-races.pg.test.ts",
        "at its boundary a level starts again once, under 64 evaluations of every kind",
      ),
    ],
  ],
  [
    "E12",
    "consumption undoes a plan change",
    [
      at("http/usage-races.pg.test.ts", "novation to and fro keeps every unit that was granted"),
      at("http/usage-races.pg.test.ts", "a smaller plan decides from the moment it is answered"),
    ],
  ],
  ["E16", "usage levels poison prototypes", [chains("K6:")]],
  [
    "E17",
    "errors are swallowed, fractions drift",
    [
      at("http/features.pg.test.ts", "takes zero as given, and fractions exactly"),
      at("http/features.pg.test.ts", "names a feature that does not exist with 200 and FLAG_NOT_FOUND"),
    ],
  ],

  [
    "F1",
    "a refused archiving archives",
    [
      at(
        "http/pricings-availability.pg.test.ts",
        "the version moves, the answer is the whole service, and exactly one event",
      ),
    ],
  ],
  [
    "F2",
    "only twenty contracts are moved",
    [
      at("http/pricings-availability.pg.test.ts", "archiving with 101 contracts moves all 101"),
      at("faults/services-volume.fault.test.ts", "a version with more contracts than a statement has parameters"),
    ],
  ],
  [
    "F3",
    "contracts keep deleted services",
    [
      at("http/services-contracts.pg.test.ts", "every contract loses the service with a history entry"),
      at("http/services-access.pg.test.ts", "a version that a contract still holds is not deleted"),
    ],
  ],
  [
    "F4",
    "a pruned version can never come back",
    [at("http/services-contracts.pg.test.ts", "the same service and version can be created again")],
  ],
  [
    "F5",
    "re-enabling loses versions",
    [at("http/services.pg.test.ts", "a disabled service comes back under its id and spelling")],
  ],
  [
    "F6",
    "deleted pricings are served on",
    [
      at("http/pricings.pg.test.ts", "an archived version goes with 204 and no event"),
      at(
        "http/kept-in-memory.fault.test.ts",
        "a disabled service and a deleted key are seen through both within 100 ms",
      ),
    ],
  ],
  [
    "F7",
    "dots become underscores",
    [at("http/pricings.pg.test.ts", "an archived version is shown too, under either spelling of its dots")],
  ],
  [
    "F8",
    "names are patterns",
    [
      at("http/services.pg.test.ts", "a name that contains another disables only itself"),
      at("http/services.pg.test.ts", "Z..m"),
    ],
  ],
  [
    "F9",
    "a deleted organization leaves contracts",
    [at("http/organizations.pg.test.ts", "the OWNER deletes it with services, pricings, contracts, members and keys")],
  ],
  [
    "F10",
    "bulk updates resurrect",
    [at("http/usage-races.pg.test.ts", "a deletion and a new contract in the midst never answer 5xx")],
  ],
  [
    "F11",
    "availability by omission",
    [
      // The contract keeps the default. A given value must be one of the two.
      at("http/pricings-availability.pg.test.ts", "a missing availability archives"),
      at("http/pricings-availability.pg.test.ts", "an empty availability"),
    ],
  ],
  [
    "F12",
    "answers outlive changes",
    [
      at("http/kept-in-memory.fault.test.ts", "a change through one application is seen through itself at once"),
      at("http/tokens.pg.test.ts", "each token is fresh: after use, reset, novation and a moment later"),
      at(
        "faults/database-trouble.fault.test.ts",
        "a process whose listener is silent while the rest of the database works",
      ),
    ],
  ],
  [
    "F13",
    "history slows reads",
    [at("http/contracts-listing.pg.test.ts", "a listing takes the same number of queries whatever it finds")],
  ],

  [
    "G1",
    "searches are patterns",
    [at("http/users.pg.test.ts", "answers a search text of 10 000 characters at once"), fuzz],
  ],
  ["G2", "parameters become lists and objects", [at("http/users.pg.test.ts", "q=marta&q=joel"), fuzz]],
  ["G3", "filters become paths", [at("http/contracts-listing.pg.test.ts", '{"services":5}'), fuzz]],
  [
    "G4",
    "pages without bounds",
    [
      at("http/services-listing.pg.test.ts", "a limit above 1000 lists a thousand"),
      at("http/contracts-listing.pg.test.ts", "a page holds at most 100"),
    ],
  ],
  [
    "G5",
    "statuses by the words of an error",
    [
      at("http/services-access.pg.test.ts", "names that contain words of errors, quotes and code are names"),
      at("http/services-access.pg.test.ts", "a failure of the server tells nobody what failed"),
    ],
  ],
  [
    "G6",
    "stacks in answers",
    [at("http/users.pg.test.ts", "malformed JSON is 400 without a trace of the server"), fuzz],
  ],
  [
    "G7",
    "unknown callers' bodies are parsed",
    [
      // The contract checks a malformed body before a missing key, so bodies are bounded and cheap to parse.
      closed("G7:"),
      at("http/request-parsing.pg.test.ts", "a declared 3 MB is refused with 413 before it is sent"),
    ],
  ],
  ["G8", "any origin with credentials", [closed("G8:")]],
  [
    "G9",
    "the Host header becomes an address",
    [at("http/pricings.pg.test.ts", "public-url uses the configured address and believes no Host header")],
  ],

  ["H1", "a rejection ends the process", [chains("K4:"), fuzz]],
  [
    "H2",
    "analytics end the process and lose counts",
    [at("http/system.pg.test.ts", "is exact under many calls at once, from two processes, over midnight")],
  ],
  [
    "H3",
    "no drain, a health that is constant",
    [
      at("entries/operation.e2e.test.ts", "told to end, it is not ready while it serves on"),
      at("http/health.pg.test.ts", "without its database a process is alive and not ready"),
      at("faults/database-trouble.fault.test.ts", "is gone, calls are 503 at once and the processes live"),
    ],
  ],
  ["H4", "Redis on every path", [closed("H4:")]],
  ["H5", "disconnecting drops the database", [at("db/template.pg.test.ts", "a test database ends in _test")]],
  [
    "H6",
    "an old image that runs as root",
    [
      at("deploy/image.runtime.test.ts", "runs as an unprivileged user"),
      at("deploy/lint.runtime.test.ts", "is built on a release of Node that is maintained"),
    ],
  ],

  [
    "I1",
    "anybody sends test events",
    [
      at("http/system.pg.test.ts", "do not exist for anybody else, whatever the body"),
      at("events/broadcast.test.ts", "what clients send is ignored"),
    ],
  ],
  [
    "I2",
    "events without their change",
    [at("db/outbox.pg.test.ts", "a change that is rolled back leaves neither an event nor a gap")],
  ],
  [
    "I3",
    "replicas do not tell each other",
    [at("events/channel.pg.test.ts", "two event servers side by side each send every committed event once")],
  ],
  [
    "I4",
    "no replay, no bound on frames",
    [
      at("events/replay.pg.test.ts", "a client that asks gets what it missed in order"),
      at("events/stalled-clients.slow.test.ts", "a frame of more than 10 KB closes the connection it came on"),
    ],
  ],
  [
    "I5",
    "quirks of the clients",
    [
      at(
        "events/broadcast.test.ts",
        "the root namespace is accepted and stays silent; any other is refused on a connection that stays open",
      ),
    ],
  ],

  ["J1", "months drift", [at("core/period.test.ts", "returns to the day of the anchor after a short month")]],
  [
    "J2",
    "local time",
    [
      at("http/usage-time-zones.pg.test.ts", "a contract of %s evaluated at %s has the same moments"),
      at("core/period.test.ts", "whatever the zone of the process, every boundary is the same moment"),
    ],
  ],
  ["J3", "one period at a time", [at("http/usage-races.pg.test.ts", "several periods late catches up in one step")]],
  ["J4", "tokens with little left", [at("http/tokens.pg.test.ts", "a token is a signed JWS with the claims in order")]],
  [
    "J5",
    "atob and skew",
    [
      at("http/tokens.pg.test.ts", "ünïcode"),
      at("core/pricing-token.test.ts", "plain atob and JSON.parse read it back"),
    ],
  ],
];
