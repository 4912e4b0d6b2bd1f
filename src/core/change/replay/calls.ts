import { MAX_AMOUNT, sumOfProducts } from "../../exact.ts";
import type { Rates } from "../../pricing/credits.ts";
import type { RecordedMovement } from "./record.ts";

/** Movements of one call, which are decided together. */
export interface Call {
  readonly kind: RecordedMovement[0];
  readonly featureId: string | null;
  readonly operationId: string;
  readonly at: number;
  readonly usedAt: number;
  readonly spender: string | null;
  readonly rows: RecordedMovement[];
}

/** Groups movements by call: rows of one operation that were written together. */
export function* callsOf(movements: Iterable<RecordedMovement>): Generator<Call> {
  let call: Call | undefined;
  for (const row of movements) {
    const [kind, , , featureId, operationId, , at, usedAt, , , spender] = row;
    const isSame =
      call !== undefined &&
      call.operationId === operationId &&
      call.kind === kind &&
      call.featureId === featureId &&
      call.at === at;
    if (call !== undefined && isSame) call.rows.push(row);
    else {
      if (call !== undefined) yield call;
      call = { kind, featureId, operationId, at, usedAt: usedAt ?? at, spender: spender ?? null, rows: [row] };
    }
  }
  if (call !== undefined) yield call;
}

/** Returns the cost of each unit of a movement. Units without a rate cost nothing. */
export const unitCosts = ([, , , , , , , , , units]: RecordedMovement, rates: Rates | undefined) =>
  Object.fromEntries(
    Object.entries(units ?? {}).map(([unit, [number]]) => [unit, sumOfProducts([[number, rates?.get(unit) ?? 0]])]),
  );

/** Returns what the units of a movement cost together. Undefined if one has no rate, or they cost too much for one call. */
export function pricedAmount(
  [, , , , , , , , , units]: RecordedMovement,
  rates: Rates | undefined,
): number | undefined {
  const products: (readonly [number, number])[] = [];
  for (const [unit, [number]] of Object.entries(units ?? {})) {
    const rate = rates?.get(unit);
    if (rate === undefined) return undefined;
    products.push([number, rate]);
  }
  const amount = sumOfProducts(products);
  return amount > MAX_AMOUNT ? undefined : amount;
}
