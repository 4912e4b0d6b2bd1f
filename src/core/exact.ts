/** Adds without binary rounding noise: 0.1 + 0.2 is 0.3, as in the database. */
export function sum(a: number, b: number): number {
  const result = a + b;
  return Number.isInteger(result) ? result : Number(result.toPrecision(15));
}

/** Returns true if `value` is a whole multiple of `step`, without binary residue: 0.3 is one of 0.1. */
export function isMultipleOf(value: number, step: number): boolean {
  const times = value / step;
  return Number.isInteger(value) && Number.isInteger(step)
    ? value % step === 0
    : Math.abs(times - Math.round(times)) < 1e-9;
}

/**
 * Returns the smallest whole number that is a multiple of a positive `step`: 1 of 0.5, 3 of 1.5. Steps of more than nine
 * decimals count as dividing 1.
 */
export function wholeStepOf(step: number): number {
  for (let scale = 1; scale < 1e10; scale *= 10) {
    if (!isMultipleOf(step * scale, 1)) continue;
    const numerator = Math.round(step * scale);
    let [divisor, rest] = [numerator, scale];
    while (rest > 0) [divisor, rest] = [rest, divisor % rest];
    return numerator / divisor || 1;
  }
  return 1;
}
