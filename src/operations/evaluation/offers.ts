import { type Offer, offerFor, type OfferUser } from "../../core/offers/offer.ts";
import { readPrices } from "../../db/queries/billing.ts";
import { listVersions } from "../../db/queries/pricings.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import { isIdentifier } from "../access.ts";
import type { Context } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { withLockedContract } from "./prepare.ts";
import { isChangeDue, needsRenewal } from "./renewal.ts";
import { requireService, type ServiceAddress, serviceNotFound, versionNotFound } from "../service-address.ts";
import { currentOf } from "./unlock.ts";
import { namedVersion, offeredVersion, requireActive, sidesOf } from "./offered-versions.ts";

/**
 * Returns what a service sells, for a user of the organization or for everybody. Source: contract offers §3.
 * @throws Failure notFound for an unknown service or version; invalid for an archived version.
 */
export async function readOffer(
  ctx: Context,
  input: ServiceAddress & { userId: string | undefined; pricingVersion: string | undefined },
): Promise<Offer> {
  const { organizationId, serviceName, userId, pricingVersion } = input;
  const service = await requireService(ctx, input);
  const versions = await listVersions(ctx.db, service.id);
  const contract = userId === undefined ? null : await currentContract(ctx, { organizationId, userId });
  const contracted = contract?.services.find(({ serviceId }) => serviceId === service.id);
  const version =
    pricingVersion === undefined
      ? offeredVersion(versions, contracted?.pricingId)
      : namedVersion(versions, pricingVersion);
  if (version === undefined) throw versionNotFound({ organizationId, serviceName, version: pricingVersion ?? "" });
  if (pricingVersion !== undefined) requireActive(version, pricingVersion, serviceName);
  const shown = { pricingId: version.id, hash: version.hash };
  const [side, heldSide] = await sidesOf(
    ctx,
    service.nameKey,
    contracted === undefined ? [shown] : [shown, contracted],
  );
  if (side === undefined) throw new Error(`version ${version.version} has no model`);
  let user: OfferUser | undefined;
  if (userId !== undefined) {
    const held =
      contract === null || contracted === undefined || heldSide === undefined
        ? undefined
        : {
            side: heldSide,
            configuration: currentOf(contracted),
            isShown: contracted.pricingId === version.id,
            expired: hasEnded(contract, ctx.resources.now()),
          };
    user = { held };
  }
  const active = versions.filter(({ state }) => state === "active").map((row) => row.version);
  const connected = await readPrices(ctx.db, organizationId);
  return offerFor(side, { service: service.name, versions: active, user, connected });
}

function hasEnded({ endDate, autoRenew }: ContractSnapshot, now: Date): boolean {
  return !autoRenew && now.getTime() > endDate.getTime();
}

/** Reads the user's contract with what is due applied. Null without one. A contract that has ended stays as it is. */
async function currentContract(
  ctx: Context,
  name: { organizationId: string; userId: string },
): Promise<ContractSnapshot | null> {
  const contract = await ctx.resources.snapshots.snapshot(name);
  const now = ctx.resources.now();
  if (contract !== null && isChangeDue(contract, now)) {
    await applyDueChangesOf(ctx, name);
    return currentContract(ctx, name);
  }
  if (contract === null || hasEnded(contract, now) || !needsRenewal(contract, now)) return contract;
  return withLockedContract(ctx, name, async (_, prepared) => prepared.contract);
}

/**
 * Returns what a published service sells, for everybody. Source: contract offers §4.
 * @throws Failure notFound for a service that is not published, as for an unknown one.
 */
export async function readPublicOffer(ctx: Context, address: ServiceAddress): Promise<Offer> {
  const unknown = serviceNotFound(address.serviceName);
  if (!isIdentifier(address.organizationId)) throw unknown;
  const service = await requireService(ctx, address);
  if (!service.offerPublished) throw unknown;
  const version = offeredVersion(await listVersions(ctx.db, service.id), undefined);
  if (version === undefined) throw unknown;
  const [side] = await sidesOf(ctx, service.nameKey, [{ pricingId: version.id, hash: version.hash }]);
  if (side === undefined) throw new Error(`version ${version.version} has no model`);
  return offerFor(side, { service: service.name, versions: undefined, user: undefined });
}
