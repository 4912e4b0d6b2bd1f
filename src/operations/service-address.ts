import { findService, type ServiceRow, type ServiceView, viewServices } from "../db/queries/pricings.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";

/** Names one service: within an organization, by its whole name in any letter case. */
export interface ServiceAddress {
  organizationId: string;
  serviceName: string;
}

/** Names one version of a service; `_` and `.` in it are the same. */
export interface PricingAddress extends ServiceAddress {
  version: string;
}

export function versionNotFound({ version, serviceName }: PricingAddress): Failure {
  return new Failure("notFound", `Pricing version ${version} not found for service ${serviceName}`);
}

function serviceNotFound(serviceName: string): Failure {
  return new Failure("notFound", `NOT FOUND: Service with name ${serviceName}`);
}

/**
 * The enabled service's row, locked until the transaction ends where asked: whoever changes a service or its versions
 * locks it first, before any contract. Failure notFound for an unknown, a disabled or somebody else's service.
 */
export async function requireService(ctx: Context, address: ServiceAddress, lock?: "update"): Promise<ServiceRow> {
  const service = await findService(ctx.db, {
    organizationId: address.organizationId,
    name: address.serviceName,
    ...(lock === undefined ? {} : { lock }),
  });
  if (service === undefined) throw serviceNotFound(address.serviceName);
  return service;
}

/** The service as it is at this moment, with its versions. Source: contract services-pricings §3.1. */
export async function viewService(ctx: Context, service: ServiceRow): Promise<ServiceView> {
  const [view] = await viewServices(ctx.db, [service]);
  if (view === undefined) throw serviceNotFound(service.name);
  return view;
}
