import { configurationKey, describeConfiguration, type GroupTarget } from "../../core/change/configuration.ts";
import { ServiceRequestError } from "../../client/service-request-error.ts";
import type { Io } from "../command.ts";
import { type Folder, type FolderService, versionKey } from "./folder.ts";
import type { Moves } from "../../core/folder/manifest.ts";
import { isSameName } from "./manifest.ts";
import { partsOf } from "./parts.ts";
import { type Part, type Plan, type PlanOptions, refusalsOf, type ServicePlan, type Verdict } from "./plan.ts";
import { checkExpectations, diffOf, lintOf, refusedFindings } from "./review.ts";
import type { Gate, Impact, Server, ServerService } from "./server.ts";
import { changesOf, type ServiceChanges, type ServiceStep, type Surroundings } from "./steps.ts";

/** Drafts that a prediction accepts. */
const MAX_DRAFTS = 20;
/** Steps whose effect on contracts cannot be predicted while the service has another name. */
const CHANGES_VERSIONS: ReadonlySet<ServiceStep["do"]> = new Set(["upload", "activate", "archive"]);

export const takesPart = ({ only }: Pick<PlanOptions, "only">, part: Part) => only?.includes(part) ?? true;

/** Reads what the steps of all services depend on. */
export async function surroundingsOf(
  folder: Folder,
  server: Server,
  io: Io,
  options: Pick<PlanOptions, "only" | "prune">,
): Promise<Surroundings> {
  const entries = folder.manifest.services ?? [];
  const publishes = takesPart(options, "public") && entries.some((entry) => entry.public !== undefined);
  return {
    server,
    io,
    prune: options.prune,
    versions: takesPart(options, "services"),
    published: publishes && server.rights.isAdmin ? await server.published() : undefined,
    names: entries.length === 0 ? [] : await server.serviceNames(),
    folderNames: entries.map(({ name }) => name),
  };
}

/** Computes what the server has to change, what that does to contracts, and whether it is refused. Writes nothing. */
export async function planFolder(folder: Folder, server: Server, io: Io, options: PlanOptions): Promise<Plan> {
  const around = await surroundingsOf(folder, server, io, options);
  const notes: string[] = [];
  const services: ServicePlan[] = [];
  const found = new Set(around.folderNames.map((name) => name.toLowerCase()));
  if (around.versions || takesPart(options, "public")) {
    for (const service of folder.services) {
      const changes = await changesOf(service, around);
      if (changes.current !== undefined) found.add(changes.current.name.toLowerCase());
      services.push(await planService(service, changes, around, { ...options, notes }));
    }
  }
  if (around.versions && folder.manifest.services !== undefined) {
    const others = around.names.filter((name) => !found.has(name.toLowerCase()));
    notes.push(...others.map((name) => `The service ${name} is not in the folder and left alone`));
  }
  const parts = await partsOf(folder.manifest, server, options, notes);
  const plan = { organization: server.organization, services, parts, notes };
  const steps = [...services, ...parts].reduce((sum, each) => sum + each.steps.length, 0);
  const verdict = verdictOf(refusalsOf({ ...plan, verdict: "nothing" }), steps);
  return { organization: plan.organization, verdict, services, parts, notes };
}

const verdictOf = (refusals: readonly string[], steps: number): Verdict =>
  refusals.length > 0 ? "refused" : steps > 0 ? "changes" : "nothing";

async function planService(
  service: FolderService,
  changes: ServiceChanges,
  around: Surroundings,
  options: PlanOptions & { readonly notes: string[] },
): Promise<ServicePlan> {
  const { name, public: isPublic } = service.entry;
  const { notes } = options;
  notes.push(...changes.notes);
  const refusals = [...(around.versions ? service.problems : []), ...changes.refusals];
  if (takesPart(options, "public") && isPublic !== undefined && !around.server.rights.isAdmin)
    refusals.push("public: needs the user key of an OWNER or ADMIN; leave it out with --only");
  const lint = lintOf(changes.missing);
  refusals.push(...refusedFindings(lint, options.failOn));
  const expectations = checkExpectations(service, changes);
  refusals.push(...expectations.flatMap(({ failed }) => failed));
  // Predictions over files that are refused anyway would only repeat why.
  const predicted = refusals.length > 0 ? NOT_PREDICTED : await predict(service, changes, around);
  refusals.push(...predicted.refusals);
  notes.push(...predicted.notes);
  const gate = mergedGate(predicted.impacts);
  if (!gate.passed && !options.overridesGate)
    refusals.push(
      ...gate.rules.flatMap(({ passed, reason }) => (passed ? [] : [`${name}: The gate is closed: ${reason}`])),
    );
  return {
    name,
    verdict: verdictOf(refusals, changes.steps.length),
    steps: changes.steps,
    diff: around.versions ? await diffOf(service, changes, around) : null,
    lint,
    expectations,
    impact: predicted.impacts.map(withoutGate),
    gate,
    refusals,
  };
}

interface Predicted {
  readonly impacts: readonly Impact[];
  readonly refusals: readonly string[];
  readonly notes: readonly string[];
}

const NOT_PREDICTED: Predicted = { impacts: [], refusals: [], notes: [] };

/** Asks the server what archiving and activating do to contracts, with the missing versions as drafts. */
async function predict(service: FolderService, changes: ServiceChanges, { server }: Surroundings): Promise<Predicted> {
  const { current, missing, steps } = changes;
  const { name } = service.entry;
  if (current === undefined) return NOT_PREDICTED;
  const rename = steps.find((step) => step.do === "rename");
  if (rename !== undefined) {
    // Disabling concerns every contract of a service.
    const { counts } = await server.impact(current.name, { action: "disable" }, []);
    const { renamedFrom = "" } = service.entry;
    const isAsked = isSameName(rename.from, renamedFrom) && isSameName(rename.to, name);
    const isAlone = steps.every((step) => step.do === "rename" || !CHANGES_VERSIONS.has(step.do));
    if (counts.contracts === 0 || (isAsked && isAlone)) return NOT_PREDICTED;
    const cannot = `${rename.from} has contracts, so that it cannot be renamed to ${rename.to}`;
    return { ...NOT_PREDICTED, refusals: [cannot + reasonOf(rename, name, isAsked)] };
  }
  const drafts = missing
    .filter(({ entry }) => entry.state === "active")
    .toSorted((one, other) => Date.parse(other.pricing.createdAt) - Date.parse(one.pricing.createdAt))
    .slice(0, MAX_DRAFTS)
    .map(({ source }) => source.text);
  const impacts: Impact[] = [];
  const refusals: string[] = [];
  const notes: string[] = [];
  for (const step of steps) {
    if (step.do !== "archive" && step.do !== "activate") continue;
    const { pricingVersion } = step;
    // Nobody has a contract on a version that is not uploaded yet.
    if (missing.some(({ pricing }) => versionKey(pricing.version) === versionKey(pricingVersion))) continue;
    if (step.do === "archive" && !hasAnother(current, drafts, pricingVersion)) {
      notes.push(`${name}: the effect of archiving ${pricingVersion} can be predicted once ${step.to} is active`);
      continue;
    }
    try {
      const impact = await predictStep(server, current, step, { moves: service.entry.moves, drafts });
      impacts.push(impact);
      if (step.do === "archive") refusals.push(...unplacedOf(name, step, impact));
    } catch (error) {
      // Targets that do not fit the new version are the folder's fault.
      if (!(error instanceof ServiceRequestError) || (error.status !== 400 && error.status !== 404)) throw error;
      refusals.push(`${name}: ${error.message}`);
    }
  }
  return { impacts, refusals, notes };
}

function reasonOf({ from, to }: { from: string; to: string }, name: string, isAsked: boolean): string {
  if (isAsked) return " together with other changes. Apply the rename first, with the versions that the server has";
  if (isSameName(to, name)) return `. Add "renamedFrom: ${from}" if ${name} is its new name`;
  return " to upload a file with that name";
}

/** Returns true if the server can archive the version now: one that is activated first does not count yet. */
function hasAnother({ versions }: ServerService, drafts: readonly string[], version: string): boolean {
  return (
    drafts.length > 0 || versions.some(({ state, pricingVersion }) => state === "active" && pricingVersion !== version)
  );
}

async function predictStep(
  server: Server,
  { name }: ServerService,
  step: Extract<ServiceStep, { do: "archive" | "activate" }>,
  { moves, drafts }: { moves: Moves | undefined; drafts: readonly string[] },
): Promise<Impact> {
  const { pricingVersion } = step;
  if (step.do === "activate") return server.impact(name, { action: "activate", pricingVersion }, drafts);
  const change = { action: "archive", pricingVersion };
  const { groups, ...fallback } = await targetsOf(server, name, pricingVersion, { moves, drafts });
  return server.impact(name, { ...change, ...fallback, ...(groups.length === 0 ? {} : { groups }) }, drafts);
}

/** Body of an archiving: the folder's fallback, and of its groups those that some contract is in. */
export async function targetsOf(
  server: Server,
  name: string,
  pricingVersion: string,
  { moves = {}, drafts }: { moves: Moves | undefined; drafts: readonly string[] },
): Promise<{ subscriptionPlan?: string; subscriptionAddOns?: object; groups: readonly GroupTarget[] }> {
  const { fallback, groups = [] } = moves;
  const forAll =
    fallback === undefined
      ? {}
      : {
          ...(fallback.plan === undefined ? {} : { subscriptionPlan: fallback.plan }),
          subscriptionAddOns: fallback.addOns,
        };
  if (groups.length === 0) return { ...forAll, groups };
  const before = await server.impact(name, { action: "archive", pricingVersion, ...forAll }, drafts);
  const isUsed = ({ pricingVersion: only, configuration }: GroupTarget) =>
    before.groups.some(
      (group) =>
        (only === undefined || versionKey(only) === versionKey(group.pricingVersion)) &&
        configurationKey(group.configuration) === configurationKey(configuration),
    );
  return { ...forAll, groups: groups.filter(isUsed) };
}

function unplacedOf(name: string, { pricingVersion, to }: { pricingVersion: string; to: string }, { groups }: Impact) {
  return groups.flatMap(({ configuration, problem, counts }) =>
    problem === null
      ? []
      : [
          `${name} ${pricingVersion} → ${to}: ${counts.contracts} ${counts.contracts === 1 ? "contract" : "contracts"} with ${describeConfiguration(configuration)} have no valid target: ${problem.message}`,
        ],
  );
}

/** Merges the verdicts on several changes: of each rule, the first that is broken. */
function mergedGate(impacts: readonly Impact[]): Gate {
  const [first] = impacts;
  const rules = (first?.gate.rules ?? []).map(
    (rule, index) => impacts.map(({ gate }) => gate.rules[index] ?? rule).find(({ passed }) => !passed) ?? rule,
  );
  return { passed: rules.every(({ passed }) => passed), rules };
}

function withoutGate(impact: Impact): Omit<Impact, "gate"> {
  const { gate: _, ...rest } = impact;
  return rest;
}
