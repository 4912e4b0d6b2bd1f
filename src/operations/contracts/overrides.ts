import { eq } from "drizzle-orm";
import { authorOf } from "../../core/access/caller.ts";
import type { PrivateEvent } from "../../core/event-messages.ts";
import type { FeatureValue } from "../../core/pricing/model.ts";
import {
  findElement,
  hasEnded,
  type OverrideKind,
  type OverrideMode,
  refuseOverride,
  storedValue,
} from "../../core/pricing/overrides.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { type ReadContract, readContracts } from "../../db/queries/contract-view.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import {
  type ContractOverride,
  deleteOverride,
  type OverrideView,
  putOverride,
  takeEndedOverrides,
} from "../../db/queries/overrides.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { contracts } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { type ContractAddress, contractNotFound, findContract } from "../contract-address.ts";
import { overridesOf, viewOverrides } from "../contract-views.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { compiledPricings } from "../subscriptions.ts";

/** Overrides of one contract that have not ended. */
const MAX_OVERRIDES = 100;

/** Addresses one element of a contract, with names as sent. */
export interface ElementAddress extends ContractAddress {
  service: string;
  kind: OverrideKind;
  name: string;
}

/** An override as requested. */
export interface OverrideChange {
  mode: OverrideMode;
  value: FeatureValue;
  /** Undefined or past: from now on. */
  from: Date | undefined;
  /** Undefined: forever. */
  until: Date | undefined;
  reason: string;
}

/**
 * Creates or replaces the override of an element. A call that changes nothing writes nothing. Source: contract
 * custom-terms §3.
 * @throws Failure notFound for an unknown contract, service or element; invalid for a value that the element cannot have,
 * an end that is past, or too many overrides.
 */
export async function setOverride(
  ctx: Context,
  { change, ...address }: ElementAddress & { change: OverrideChange },
): Promise<OverrideView> {
  await applyDueChangesOf(ctx, address);
  return transaction(ctx, async (ctx) => {
    const { contract, all, contracted } = await lockElement(ctx, { change, ...address });
    const { kind, name } = address;
    const now = ctx.resources.now();
    const from = change.from === undefined || change.from.getTime() < now.getTime() ? now : change.from;
    const until = change.until ?? null;
    if (until !== null && until.getTime() <= from.getTime()) {
      throw new Failure("invalid", "INVALID DATA: until must be after from");
    }
    const before = all.find(isOf(address));
    const { mode, reason } = change;
    const value = storedValue(change.value);
    if (before !== undefined && isSame(before, { mode, value, from, until, reason }, now)) {
      return viewOne(ctx, before, now);
    }
    const lasting = all.filter((override) => override !== before && !hasEnded(override, now));
    if (lasting.length >= MAX_OVERRIDES) {
      throw new Failure(
        "invalid",
        `INVALID DATA: A contract cannot have more than ${MAX_OVERRIDES} overrides that have not ended`,
      );
    }
    const { serviceId } = contracted;
    const ended = await takeEndedOverrides(ctx.db, now, contract.view.id);
    const stored = { serviceId, kind, name, mode, value, from, until, reason, setAt: now, ...authorOf(ctx.caller) };
    await putOverride(ctx.db, contract.view, stored);
    await recordChange(ctx, contract, now);
    const { organizationId, userContact } = contract.view;
    const { userId } = userContact;
    const after = await viewOne(ctx, { ...stored, organizationId, userId, contracted }, now);
    await audit(ctx, {
      action: "override.set",
      organizationId,
      target: userId,
      before: before === undefined ? undefined : await viewOne(ctx, before, now),
      after,
    });
    await recordEvents(ctx.db, [...ended, { organizationId, event: setEvent(contract.view.id, after) }]);
    return after;
  });
}

function setEvent(contractId: string, override: OverrideView): PrivateEvent {
  const { userId, service: serviceName, kind, name, mode, value, from, until } = override;
  return {
    code: "CONTRACT_OVERRIDE_SET",
    details: {
      contractId,
      userId,
      serviceName,
      kind,
      name,
      mode,
      value: JSON.stringify(value),
      from: from.toISOString(),
      ...(until === null ? {} : { until: until.toISOString() }),
    },
  };
}

/** Locks the contract, and checks the element and its value. */
async function lockElement(
  ctx: Context,
  { change, ...address }: ElementAddress & { change: OverrideChange },
): Promise<{
  contract: ReadContract;
  all: readonly ContractOverride[];
  contracted: ReadContract["services"][number];
}> {
  const { service, kind, name } = address;
  const row = await findContract(ctx, address, "change");
  const [contract] = await readContracts(ctx.db, [row]);
  if (contract === undefined) throw contractNotFound(address.userId);
  const contracted = contract.services.find(({ key }) => key === serviceKey(service));
  if (contracted === undefined) throw new Failure("notFound", `Service ${service} not found in the contract`);
  const pricing = (await compiledPricings(ctx, [contracted])).get(contracted.hash);
  if (pricing === undefined) throw new Error(`pricing ${contracted.pricingId} has no model`);
  const element = findElement(pricing, { kind, name });
  if (element === undefined) {
    const noun = kind === "features" ? "Feature" : "Usage limit";
    throw new Failure(
      "notFound",
      `${noun} ${name} not found in pricing version ${contracted.version} of service ${service}`,
    );
  }
  const refused = refuseOverride(element, { ...change, kind, name });
  if (refused !== undefined) throw new Failure("invalid", `INVALID DATA: ${refused}`);
  return { contract, all: overridesOf(contract), contracted };
}

/** Returns a test for the override of this element. */
const isOf =
  ({ service, kind, name }: Pick<ElementAddress, "service" | "kind" | "name">) =>
  (override: ContractOverride): boolean =>
    override.contracted.key === serviceKey(service) && override.kind === kind && override.name === name;

/** True if replacing the override would change nothing. An ended one has another `until`. */
function isSame(
  before: ContractOverride,
  after: Pick<ContractOverride, "mode" | "value" | "from" | "until" | "reason">,
  now: Date,
): boolean {
  const isSameStart =
    before.from.getTime() === after.from.getTime() ||
    (before.from.getTime() <= now.getTime() && after.from.getTime() <= now.getTime());
  return (
    isSameStart &&
    before.mode === after.mode &&
    before.reason === after.reason &&
    before.until?.getTime() === after.until?.getTime() &&
    JSON.stringify(before.value) === JSON.stringify(after.value)
  );
}

/** Gives the contract a new row version, which cached snapshots are compared with, and records its state. */
async function recordChange(ctx: Context, { view }: ReadContract, now: Date): Promise<void> {
  await ctx.db.update(contracts).set({ updatedAt: now }).where(eq(contracts.id, view.id));
  await recordStates(ctx.db, { contractIds: [view.id], cause: "override", now });
}

export async function viewOne(ctx: Context, override: ContractOverride, at: Date): Promise<OverrideView> {
  const [view] = await viewOverrides(ctx, [override], at);
  if (view === undefined) throw new Error("an override has no view");
  return view;
}

export function requireOverride(all: readonly ContractOverride[], address: ElementAddress): ContractOverride {
  const found = all.find(isOf(address));
  if (found !== undefined) return found;
  const { kind, name, service, userId } = address;
  throw new Failure("notFound", `No override of ${kind} ${name} of service ${service} in the contract of ${userId}`);
}

/**
 * Ends the override of an element now, and forgets it.
 * @throws Failure notFound for an unknown contract or override.
 */
export async function removeOverride(ctx: Context, address: ElementAddress): Promise<void> {
  await applyDueChangesOf(ctx, address);
  await transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, address, "change");
    const [contract] = await readContracts(ctx.db, [row]);
    if (contract === undefined) throw contractNotFound(address.userId);
    const override = requireOverride(overridesOf(contract), address);
    const now = ctx.resources.now();
    const before = await viewOne(ctx, override, now);
    const ended = await takeEndedOverrides(ctx.db, now, row.id);
    const { kind, name, serviceId, contracted } = override;
    await deleteOverride(ctx.db, { contractId: row.id, serviceId, kind, name });
    await recordChange(ctx, contract, now);
    const { organizationId, userId } = row;
    await audit(ctx, { action: "override.remove", organizationId, target: userId, before });
    const details = { contractId: row.id, userId, serviceName: contracted.key, kind, name, cause: "removed" } as const;
    const removed: Addressed = { organizationId, event: { code: "CONTRACT_OVERRIDE_ENDED", details } };
    await recordEvents(ctx.db, hasEnded(override, now) ? ended : [...ended, removed]);
  });
}
