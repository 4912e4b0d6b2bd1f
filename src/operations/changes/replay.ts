import type { HashedModel, RecordTexts } from "../../core/change/analysis.ts";
import type { Side } from "../../core/change/entitlements.ts";
import type { ReplayedGroup, ReplayReport } from "../../core/change/replay/report.ts";
import {
  addPart,
  daysOf,
  emptyPart,
  groupPrice,
  percentilesOf,
  type ReplayPart,
} from "../../core/change/replay/tally.ts";
import { trackedLimits } from "../../core/pricing/compile.ts";
import { addBuckets, startOfBucket } from "../../core/usage-range.ts";
import { readLedgerStart } from "../../db/queries/ledger-partitions.ts";
import { listVersions, modelText, type VersionRow } from "../../db/queries/pricings.ts";
import {
  countDeniedThen,
  countReplayed,
  listReplayed,
  listReplayedConfigurations,
  readModelText,
  readMoreMovements,
  type ReplayedConfiguration,
  type ReplayFilter,
  readReplayRecords,
} from "../../db/queries/replay.ts";
import { tenantOf } from "../access.ts";
import { type Context, snapshot } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import type { Watch } from "../policy/change-impact.ts";
import { type ChangePlan, planChange, type Targets } from "../policy/change-plan.ts";
import { loadSide } from "../policy/load-side.ts";
import { CONTRACTS_CHANGING } from "../policy/proposals.ts";
import { requireService, type ServiceAddress } from "../service-address.ts";
import { clientClosed } from "../state/analysis.ts";
import { type Placed, placeConfigurations } from "./replay-placement.ts";

/** Longest range of one replay. */
const MAX_RANGE_MS = 92 * 86_400_000;
/** Contracts that one snapshot of the database covers. */
const SNAPSHOT_CONTRACTS = 1_000;
/** Contracts that one task replays. Their texts are in memory at once. A contract with many movements has a task of its own. */
const TASK_CONTRACTS = 50;

export interface ReplayRequest extends ServiceAddress {
  /** An existing version, unless there is a draft. */
  pricingVersion: string | undefined;
  draft: VersionRow | undefined;
  from: Date | undefined;
  to: Date | undefined;
  targets: Pick<Targets, "groups" | "renames">;
  /** Configurations without their own target keep their names where the target version has them. */
  keepPlans: boolean;
  /** Number of most affected users to list. */
  top: number;
}

/**
 * Replays what the contracts of a service counted, as if it had had another pricing. Changes nothing. It validates the request
 * immediately; the returned function computes the report. Source: contract replay.
 * @throws Failure notFound for an unknown service or version; invalid for a wrong range, or a group without contracts;
 * tooManyRequests while another replay of the organization runs.
 */
export async function openReplay(
  ctx: Context,
  request: ReplayRequest,
): Promise<(watch: Watch) => Promise<ReplayReport>> {
  const { organizationId, pricingVersion, draft, targets, keepPlans, top } = request;
  if ((pricingVersion === undefined) === (draft === undefined)) {
    throw new Failure("invalid", "INVALID DATA: A replay needs a pricingVersion or a pricing");
  }
  const range = rangeOf(request, ctx.resources.now());
  await applyDueChangesOf(ctx, { organizationId });
  const service = await requireService(ctx, request);
  const start = await readLedgerStart(ctx.db);
  if (start !== null && range.from <= start) {
    throw new Failure(
      "invalid",
      `INVALID DATA: Movements before ${start.toISOString()} were summed up: from must be later`,
    );
  }
  const stored = await listVersions(ctx.db, service.id);
  const versions = draft === undefined ? stored : [draft, ...stored.filter(({ key }) => key !== draft.key)];
  const wanted = pricingVersion ?? draft?.version;
  // Naming contracts allows archived versions, which a replay may have.
  const change = { action: "novation", pricingVersion: wanted, targets, contractIds: [] } as const;
  const plan = await planChange(ctx, service, change, versions);
  const all = { ...plan, versions: new Map([...stored, ...versions].map((row) => [row.id, row])) };
  const end = ctx.resources.analysis.startReplay(organizationId);
  return async (watch) => {
    try {
      const filter = { organizationId, serviceId: service.id, ...range };
      return await replay(ctx, { plan: all, filter, keepPlans, top }, watch);
    } finally {
      end();
    }
  };
}

/** Returns the range of a replay. Default: the last whole month, in UTC. */
function rangeOf({ from, to }: Pick<ReplayRequest, "from" | "to">, now: Date): { from: Date; to: Date } {
  const end = to ?? startOfBucket("month", now);
  const range = { from: from ?? addBuckets("month", startOfBucket("month", new Date(end.getTime() - 1)), 0), to: end };
  const refuse = (sentence: string) => new Failure("invalid", `INVALID DATA: ${sentence}`);
  if (range.to > now) throw refuse("to must not be in the future");
  if (range.from >= range.to) throw refuse("from must be before to");
  if (range.to.getTime() - range.from.getTime() > MAX_RANGE_MS) throw refuse("At most 92 days can be replayed at once");
  return range;
}

interface Work {
  plan: ChangePlan;
  filter: ReplayFilter;
  keepPlans: boolean;
  top: number;
}

async function replay(ctx: Context, work: Work, { signal, onProgress }: Watch): Promise<ReplayReport> {
  const { plan, filter, top } = work;
  const of = await countReplayed(ctx.db, filter);
  onProgress?.({ contracts: 0, of });
  const target = plan.target;
  const after = await loadSide(ctx, plan.service, target);
  if (target === undefined || after === undefined) throw new Error("a replay has no target");
  const configurations = await listReplayedConfigurations(ctx.db, filter);
  const own = configurations.filter(({ serviceId }) => serviceId === filter.serviceId);
  const placed = await placeConfigurations(ctx, work, after, own, signal);
  const model = { hash: target.hash, text: target.draft ?? (await modelText(ctx.db, target.id)) };
  const task = {
    kind: "replay" as const,
    serviceId: filter.serviceId,
    target: model,
    pricings: await modelsOf(ctx, configurations),
    placements: [...placed.placements],
    from: filter.from.getTime(),
    to: filter.to.getTime(),
    top,
  };
  const whole = emptyPart();
  let contracts = 0;
  const { organizationId } = filter;
  // Read now: within the snapshot it would need a second connection.
  const ownerId = await tenantOf(ctx, organizationId).ownerId();
  await ctx.resources.analysis.call(
    { organizationId, ownerId: async () => ownerId },
    async (call) => {
      const replayPart = async (records: readonly RecordTexts[]) => {
        const part = await call.run({ ...task, records });
        if (part.missing.length > 0) throw new Failure("conflict", CONTRACTS_CHANGING);
        addPart(whole, part, top);
        contracts += records.length;
        onProgress?.({ contracts, of: Math.max(contracts, of) });
      };
      for (let after = ""; ;) {
        const page = await listReplayed(ctx.db, filter, { after, limit: SNAPSHOT_CONTRACTS });
        const last = page.at(-1);
        if (last === undefined) return;
        after = last;
        await replayInOneSnapshot(ctx, filter, page, { signal, replayPart });
      }
    },
    signal,
  );
  const serviceKeys = [...new Set([plan.service.nameKey, ...own.map(({ key }) => key)])];
  const deniedThen = await countDeniedThen(ctx.db, { ...filter, serviceKeys });
  return viewReport(work, after, placed, whole, deniedThen);
}

/**
 * Replays contracts in parts that are read from one snapshot of the database. Reading waits for the replay of the part before: a replay
 * takes one processor at most, in the database or in a thread, and leaves the others to requests.
 */
async function replayInOneSnapshot(
  ctx: Context,
  filter: ReplayFilter,
  page: readonly string[],
  { signal, replayPart }: Pick<Watch, "signal"> & { replayPart: (records: readonly RecordTexts[]) => Promise<void> },
): Promise<void> {
  const endIfLeft = () => {
    if (signal?.aborted === true) throw clientClosed();
  };
  await snapshot(ctx, async (ctx) => {
    for (let at = 0; at < page.length; at += TASK_CONTRACTS) {
      endIfLeft();
      const records = await readReplayRecords(ctx.db, filter, page.slice(at, at + TASK_CONTRACTS));
      const whole = records.filter(({ lastMovement }) => lastMovement === null);
      if (whole.length > 0) await replayPart(whole.map(({ text }) => [text]));
      for (const record of records) {
        if (record.lastMovement === null) continue;
        const more: string[] = [];
        for await (const text of readMoreMovements(ctx.db, filter, record)) {
          endIfLeft();
          more.push(text);
        }
        await replayPart([[record.text, ...more]]);
      }
    }
  });
}

/** Reads the models of the contracts' pricings, deleted ones included. */
async function modelsOf(ctx: Context, configurations: readonly ReplayedConfiguration[]): Promise<HashedModel[]> {
  const ids = new Map(configurations.map(({ hash, pricingId }) => [hash, pricingId]));
  const models: HashedModel[] = [];
  for (const [hash, pricingId] of ids) {
    const text = await readModelText(ctx.db, pricingId);
    if (text !== undefined) models.push({ hash, text });
  }
  return models;
}

function viewReport(
  { plan, filter, top }: Work,
  { pricing, serviceName }: Side,
  { groups, pricings, complete }: Placed,
  part: ReplayPart,
  deniedThen: Readonly<Record<string, number>>,
): ReplayReport {
  const [from, to] = [filter.from.getTime(), filter.to.getTime()];
  const isKnown = (limit: string) =>
    pricings.every((before) => trackedLimits(before).some(({ name }) => name === limit));
  const viewed = groups.map(({ price, ...facts }, number): ReplayedGroup => {
    const counted = part.groups[number];
    return {
      ...facts,
      contracts: counted?.contracts ?? 0,
      denied: counted?.denied ?? { contracts: 0, movements: 0, amounts: {} },
      firstDenialAfterDays: percentilesOf(counted?.firstDenials ?? []),
      price: groupPrice(price, counted),
    };
  });
  return {
    action: "replay",
    serviceName: plan.service.name,
    targetVersion: pricing.pricing.version,
    from: filter.from.toISOString(),
    to: filter.to.toISOString(),
    basis: "movements",
    complete: complete && part.complete,
    contracts: part.contracts,
    movements: part.movements,
    totals: {
      denied: { ...part.denied, reasons: part.reasons },
      deniedThen,
      revenue: { ...part.revenue, currency: pricing.pricing.currency, unpriced: part.unpriced },
      paying: part.paying,
    },
    days: daysOf(part, from, to),
    groups: viewed
      .filter(({ contracts }) => contracts > 0)
      .toSorted((one, other) => other.denied.contracts - one.denied.contracts || other.contracts - one.contracts),
    top: part.top.slice(0, top),
    unknown: trackedLimits(pricing)
      .filter(({ name }) => !isKnown(name))
      .map(({ name }) => `${serviceName}-${name}`),
  };
}
