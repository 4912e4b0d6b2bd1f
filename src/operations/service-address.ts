import { findService, type ServiceRow, type ServiceView, viewServices } from "../db/queries/pricings.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";

/** Addresses one service of an organization, by its full case-insensitive name. */
export interface ServiceAddress {
  organizationId: string;
  serviceName: string;
}

/** Addresses one version of a service; `_` and `.` in versions are equivalent. */
export interface PricingAddress extends ServiceAddress {
  version: string;
}

export function versionNotFound({ version, serviceName }: PricingAddress): Failure {
  return new Failure("notFound", `Pricing version ${version} not found for service ${serviceName}`);
}

export function serviceNotFound(serviceName: string): Failure {
  return new Failure("notFound", `NOT FOUND: Service with name ${serviceName}`);
}

/**
 * Returns the enabled service's row. With `lock`, it stays locked until the transaction ends. Changes of a service or
 * its versions must lock it before any contract.
 * @throws Failure notFound for an unknown or disabled service, or another organization's.
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

/** Returns the service's current state with its versions. Source: contract services-pricings §3.1. */
export async function viewService(ctx: Context, service: ServiceRow): Promise<ServiceView> {
  const [view] = await viewServices(ctx.db, [service]);
  if (view === undefined) throw serviceNotFound(service.name);
  return view;
}
