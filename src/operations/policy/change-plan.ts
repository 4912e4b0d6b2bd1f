import { type Configuration, configurationKey, type GroupTarget } from "../../core/change/configuration.ts";
import { listVersions, type ServiceRow, type VersionRow, versionKey } from "../../db/queries/pricings.ts";
import type { SubscriberFilter } from "../../db/queries/subscribers.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { versionNotFound } from "../service-address.ts";

/** Targets of moved contracts. A configuration's own target comes first, then the fallback, the renamed plan, the best fit. */
export interface Targets {
  fallback?: Configuration | undefined;
  groups: readonly GroupTarget[];
  /** New plan by previous plan. Default: the renames that the target version declares. */
  renames?: Readonly<Record<string, string>> | undefined;
}

/** An action that changes the entitlements of a service's contracts. */
export type ChangeAction =
  | { action: "archive"; pricingVersion: string; targets: Targets }
  | { action: "activate"; pricingVersion: string }
  | ({ action: "disable" } & Among)
  /**
   * Moves contracts to a version. Default: the newest active one. `from` limits it to contracts on those versions.
   * Default: all other versions.
   */
  | ({
      action: "novation";
      pricingVersion?: string | undefined;
      from?: readonly string[] | undefined;
      targets: Targets;
    } & Among);

/** Limits a change to chosen contracts. These may also move to an archived version. */
interface Among {
  contractIds?: readonly string[] | undefined;
}

/** A change with its resolved versions and contracts. */
export interface ChangePlan {
  readonly service: ServiceRow;
  readonly action: ChangeAction["action"];
  /** The version that is archived or activated. */
  readonly version: VersionRow | undefined;
  /** The version that contracts move to. For an activation: the version that they could move to. */
  readonly target: VersionRow | undefined;
  readonly versions: ReadonlyMap<string, VersionRow>;
  readonly holders: SubscriberFilter;
  readonly targets: Targets;
}

const NO_TARGETS: Targets = { groups: [] };

/**
 * Resolves the versions of a change, with the states of `given` if there are some.
 * @throws Failure notFound for an unknown version; invalid for a version that contracts cannot move to, and for
 * archiving the last active one.
 */
export async function planChange(
  ctx: Context,
  service: ServiceRow,
  change: ChangeAction,
  given?: readonly VersionRow[],
): Promise<ChangePlan> {
  const versions = given ?? (await listVersions(ctx.db, service.id));
  const find = (version: string): VersionRow => {
    const found = versions.find(({ key }) => key === versionKey(version));
    if (found === undefined) {
      throw versionNotFound({ organizationId: service.organizationId, serviceName: service.name, version });
    }
    return found;
  };
  const newest = (except?: VersionRow) => versions.find((row) => row.state === "active" && row !== except);
  const plan = {
    service,
    action: change.action,
    version: undefined,
    target: undefined,
    versions: new Map(versions.map((row) => [row.id, row])),
    holders: { serviceIds: [service.id], contractIds: "contractIds" in change ? change.contractIds : undefined },
    targets: NO_TARGETS,
  };
  if (change.action === "disable") return plan;
  if (change.action === "activate") {
    const version = find(change.pricingVersion);
    return { ...plan, version, target: version };
  }
  const { targets } = change;
  requireDifferent(targets.groups);
  if (change.action === "archive") {
    const version = find(change.pricingVersion);
    const target = newest(version);
    // An archived version stays archived, and its contracts do not move.
    const pricingIds = version.state === "archived" ? [] : [version.id];
    if (target === undefined && version.state === "active") {
      throw new Failure("invalid", `You cannot archive the last active pricing for service ${service.name}`);
    }
    return { ...plan, version, target, targets, holders: { serviceIds: [service.id], pricingIds } };
  }
  const target = change.pricingVersion === undefined ? newest() : find(change.pricingVersion);
  if (target === undefined) throw new Failure("invalid", `No active pricing found for service ${service.name}`);
  if (target.state === "archived" && change.contractIds === undefined) {
    throw new Failure("invalid", `Pricing version ${target.version} of service ${service.name} is archived`);
  }
  const sources = change.from === undefined ? versions.filter((row) => row !== target) : change.from.map(find);
  return {
    ...plan,
    target,
    targets,
    holders: { ...plan.holders, pricingIds: sources.map((row) => row.id) },
  };
}

function requireDifferent(groups: readonly GroupTarget[]): void {
  const seen = new Set<string>();
  for (const [index, { pricingVersion, configuration }] of groups.entries()) {
    const key = targetKey(pricingVersion, configuration);
    if (seen.has(key)) {
      throw new Failure("invalid", `INVALID DATA: groups[${index}] has a configuration that another one has`);
    }
    seen.add(key);
  }
}

/** Returns the key of a configuration on one version, or on any version. */
export const targetKey = (version: string | undefined, configuration: Configuration) =>
  `${version === undefined ? "" : versionKey(version)} ${configurationKey(configuration)}`;
