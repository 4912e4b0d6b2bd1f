import { and, eq, sql, type SQLWrapper } from "drizzle-orm";
import { serviceKey } from "../../core/pricing/names.ts";
import type { Database } from "../postgres/connect.ts";
import { billingConnections, billingSubscriptions, contractBilling } from "../schema.ts";
import type { SubscriptionName } from "./billing.ts";

/** SQL condition: the row of `billing_subscriptions` is this subscription. */
const ofSubscription = ({ connectionId, subscription }: SubscriptionName) =>
  and(eq(billingSubscriptions.connectionId, connectionId), eq(billingSubscriptions.subscription, subscription));

/** Gives a service its new name in the maps, subscriptions and applied targets of its organization. */
export async function renameInBilling(
  tx: Database,
  { organizationId, from, to }: { organizationId: string; from: string; to: string },
): Promise<void> {
  const key = serviceKey(to);
  const connected = await tx
    .select()
    .from(billingConnections)
    .where(eq(billingConnections.organizationId, organizationId))
    .for("update");
  if (connected.length === 0) return;
  const renamed = <T>(record: Readonly<Record<string, T>>) =>
    Object.fromEntries(Object.entries(record).map(([name, value]) => [name === from ? key : name, value]));
  for (const { id, prices, ended } of connected) {
    const entries = Object.entries(prices).map(
      ([price, mapped]) => [price, serviceKey(mapped.service) === from ? { ...mapped, service: to } : mapped] as const,
    );
    await tx
      .update(billingConnections)
      .set({ prices: Object.fromEntries(entries), ended: renamed(ended) })
      .where(eq(billingConnections.id, id));
  }
  const mentions = (column: SQLWrapper) => sql`strpos(${column}::text, ${JSON.stringify(from)}) > 0`;
  const subscriptions = await tx
    .select()
    .from(billingSubscriptions)
    .where(and(eq(billingSubscriptions.organizationId, organizationId), mentions(billingSubscriptions.register)));
  for (const { register, ...name } of subscriptions) {
    const { everServices, newest } = register;
    const everRenamed = everServices.map((each) => (each === from ? key : each)).sort();
    const changed = {
      ...register,
      everServices: everRenamed,
      newest: { ...newest, services: renamed(newest.services) },
    };
    await tx.update(billingSubscriptions).set({ register: changed }).where(ofSubscription(name));
  }
  const followed = await tx
    .select({ contractId: contractBilling.contractId, applied: contractBilling.applied })
    .from(contractBilling)
    .where(and(eq(contractBilling.organizationId, organizationId), mentions(contractBilling.applied)));
  for (const { contractId, applied } of followed) {
    await tx
      .update(contractBilling)
      .set({ applied: { ...applied, services: renamed(applied.services) } })
      .where(eq(contractBilling.contractId, contractId));
  }
}
