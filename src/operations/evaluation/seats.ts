import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { seatsOf } from "../../core/pricing/seats.ts";
import { Failure } from "../errors.ts";

/** Failure of a call with an amount of a limit that counts members. */
export const countsMembers = (id: string): Failure => new Failure("unprocessable", `${id} counts members`);

const known = new WeakMap<Evaluation, readonly string[]>();

/** Returns the ids of limits that count members in an evaluation, which is immutable. */
function seatsIn(evaluation: Evaluation): readonly string[] {
  let ids = known.get(evaluation);
  if (ids === undefined) {
    ids = evaluation.services.flatMap(({ serviceName, pricing }) => {
      const seats = seatsOf(pricing.pricing);
      return seats === undefined ? [] : [`${serviceName}-${seats}`];
    });
    known.set(evaluation, ids);
  }
  return ids;
}

/**
 * Refuses amounts of limits that count members: only their list moves these. An amount of 0 moves nothing.
 * @throws Failure unprocessable.
 */
export function refuseSeats(evaluation: Evaluation, amounts: Readonly<Record<string, number>>): void {
  for (const id of seatsIn(evaluation)) if (Object.hasOwn(amounts, id) && amounts[id] !== 0) throw countsMembers(id);
}
