import { readOutbox } from "../../src/db/queries/outbox.ts";
import type { TestApi } from "./api.ts";

/** An event as it is stored. */
export interface RecordedEvent {
  code: string;
  details: Record<string, unknown>;
}

/** Returns all events that `work` records, also those of no public channel, oldest first. */
export async function allEventsDuring(api: TestApi, work: () => Promise<unknown>): Promise<RecordedEvent[]> {
  const read = (after: number) => readOutbox(api.resources.db, { after, filter: {}, limit: 1000 });
  let last = 0;
  for (let page = await read(0); page.length > 0; page = await read(last)) last = page.at(-1)?.id ?? last;
  await work();
  return (await read(last)).map(({ code, details }) => ({ code, details }));
}
