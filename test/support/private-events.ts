import type { PrivateEvent } from "../../src/core/event-messages.ts";
import { numberEvents, readOutbox } from "../../src/db/queries/outbox.ts";
import type { TestApi } from "./api.ts";

/** An event as it is stored. */
export interface RecordedEvent {
  code: string;
  details: Record<string, unknown>;
}

/** Returns all events that `work` records, also those of no public channel, oldest first. */
export async function allEventsDuring(api: TestApi, work: () => Promise<unknown>): Promise<RecordedEvent[]> {
  const read = async (after: number) => {
    await numberEvents(api.resources.db);
    return readOutbox(api.resources.db, { after, filter: {}, limit: 1000 });
  };
  let last = 0;
  for (let page = await read(0); page.length > 0; page = await read(last)) last = page.at(-1)?.id ?? last;
  await work();
  return (await read(last)).map(({ code, details }) => ({ code, details }));
}

/** A private event of an invented contract. */
export function createdEvent(userId: string): PrivateEvent {
  const contractId = "0123456789abcdef01234567";
  const organizationId = "0123456789abcdef01234568";
  const day = "2026-01-01T00:00:00.000Z";
  const after = {
    id: contractId,
    userContact: { userId, username: userId },
    billingPeriod: { startDate: day, endDate: day, autoRenew: false, renewalDays: 30 },
    organizationId,
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: {},
  };
  return { code: "CONTRACT_CREATED", details: { contractId, userId, before: null, after } };
}
