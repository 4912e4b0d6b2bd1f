/**
 * Rounds away the binary residue of a computed price: 3.3000000000000003 is 3.3. Prices from 1 on keep six decimals, as sums
 * over configurations do; smaller ones, such as those per token, keep twelve digits.
 */
export function roundedPrice(price: number): number {
  const scaled = Math.round(price * 1e6);
  if (Math.abs(price) < 1) return Number(price.toPrecision(12));
  return Number.isSafeInteger(scaled) ? scaled / 1e6 : price;
}

/** Adds without binary rounding noise: 0.1 + 0.2 is 0.3, as in the database. */
export function sum(a: number, b: number): number {
  const result = a + b;
  return Number.isInteger(result) ? result : Number(result.toPrecision(15));
}

/** Returns the decimal that a number is written as: digits × 10^exponent. */
export function decimalOf(value: number): { digits: bigint; exponent: number } {
  const [mantissa = "", power = "0"] = String(value).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}

/** Returns true if `value` is a whole multiple of `step`, as decimals: 0.3 is one of 0.1. */
export function isMultipleOf(value: number, step: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(step)) return value % step === 0;
  if (!Number.isFinite(value) || !Number.isFinite(step) || step === 0) return false;
  const [a, b] = [decimalOf(value), decimalOf(step)];
  const shift = a.exponent - b.exponent;
  return (a.digits * 10n ** BigInt(Math.max(0, shift))) % (b.digits * 10n ** BigInt(Math.max(0, -shift))) === 0n;
}

/** Returns the smallest whole number that is a multiple of a positive `step`: 1 of 0.5, 3 of 1.5. */
export function wholeStepOf(step: number): number {
  if (Number.isInteger(step)) return step;
  const { digits, exponent } = decimalOf(step);
  // A fraction of powers of two and five: reduce digits / 10^-exponent, whose numerator is the answer.
  let numerator = digits;
  for (const factor of [2n, 5n])
    for (let left = -exponent; left > 0 && numerator % factor === 0n; left -= 1) numerator /= factor;
  return Number(numerator);
}
