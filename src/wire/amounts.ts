import { z } from "zod";
import { MAX_AMOUNT, TOO_LARGE } from "../core/exact.ts";

/** Sentences about the values of a map, in the order in which they are checked. */
interface Sentences {
  notNumbers: string;
  notAmounts: string;
  tooLarge: string;
}

const AMOUNT = { type: "number", minimum: 0, maximum: MAX_AMOUNT } as const;
/** Value of a map of amounts, which `checkedAmounts` checks. */
export const uncheckedAmount = z.custom<number>(() => true).meta(AMOUNT);

/** Amount of a consumption, or the number of each unit of a limit with rates. */
type Spending = number | Readonly<Record<string, number>>;

const isUnits = (value: unknown): value is Readonly<Record<string, number>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
const isNumber = (value: unknown): value is number => typeof value === "number";
const unitsOf = (value: unknown): unknown[] => (isUnits(value) ? Object.values(value) : [value]);

/**
 * Adds the checks of amounts to a map. Each holds for all values before the next one starts. `numbersOf` returns the
 * numbers of a value. Default: the value.
 */
export function checkedAmounts<Value extends z.ZodType<Spending>>(
  map: z.ZodRecord<z.ZodString, Value>,
  sentences: Sentences,
  numbersOf = (value: unknown) => [value],
) {
  /** Returns the sentence that the values break. */
  const brokenBy = (values: readonly unknown[]): string | undefined => {
    if (!values.every(isNumber)) return sentences.notNumbers;
    if (!values.every((value) => value >= 0 && value < Infinity)) return sentences.notAmounts;
    return values.every((value) => value <= MAX_AMOUNT) ? undefined : sentences.tooLarge;
  };
  // One check, and not one for each sentence: every counting call passes it.
  return map.superRefine((values, context) => {
    const message = brokenBy(Object.values(values).flatMap(numbersOf));
    if (message !== undefined) context.addIssue({ code: "custom", message, continue: false });
  });
}

const spending = z
  .custom<Spending>(() => true)
  .meta({ oneOf: [AMOUNT, { type: "object", additionalProperties: AMOUNT }] });

const OF_BODY: Sentences = {
  notNumbers: "All values must be numbers",
  notAmounts: "All values must be non-negative finite numbers",
  tooLarge: TOO_LARGE,
};

/** Builds a map of amounts, or of the numbers of units, by limit. `error` is the error of a value that is no object. */
export const consumption = (error: Parameters<typeof z.record>[2], sentences = OF_BODY) =>
  checkedAmounts(z.record(z.string(), spending, error), sentences, unitsOf);
