import { arrivalsFirst } from "./arrivals.ts";

/**
 * Awaits statements of one transaction that were sent together. Throws the error of the first one that failed: Postgres refuses all
 * later ones because of it, and a Promise.all may reject with one of theirs.
 */
export async function sentTogether<T extends readonly unknown[] | []>(
  statements: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  for (const settled of await Promise.allSettled(statements)) {
    if (settled.status === "rejected") throw settled.reason;
  }
  return Promise.all(statements);
}

/** Marks a statement that is sent now and awaited later, with {@link sentTogether}: its error until then is no unhandled one. */
export function sentAhead<T>(statement: Promise<T>): Promise<T> {
  statement.catch(() => {});
  return statement;
}

/** Sends a statement for each item, and lets requests that have arrived go first between them. Await them with {@link sentTogether}. */
export async function sentInTurns<Item, T>(
  items: readonly Item[],
  send: (item: Item) => Promise<T>,
): Promise<Promise<T>[]> {
  const sent: Promise<T>[] = [];
  for (const item of items) {
    sent.push(sentAhead(send(item)));
    await arrivalsFirst();
  }
  return sent;
}
