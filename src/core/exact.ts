/** Adds without binary rounding noise: 0.1 + 0.2 is 0.3, as in the database. */
export function sum(a: number, b: number): number {
  const result = a + b;
  return Number.isInteger(result) ? result : Number(result.toPrecision(15));
}
