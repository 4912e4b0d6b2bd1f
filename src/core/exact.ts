/** Largest amount of one call. JSON represents sums below it exactly. */
export const MAX_AMOUNT = Number.MAX_SAFE_INTEGER;
/** Sentence of the contract for a larger amount. */
export const TOO_LARGE = `All values must be at most ${MAX_AMOUNT}`;

const MILLION = 1e6;
/** True for a number of at most six decimals. */
const isShort = (value: number) => Math.round(value * MILLION) / MILLION === value;

/** Adds without binary rounding noise: 0.1 + 0.2 is 0.3, as in the database. */
export function sum(a: number, b: number): number {
  const result = a + b;
  if ((Number.isInteger(a) && Number.isInteger(b)) || !Number.isFinite(result)) return result;
  // Both are then below 2^53 millionths, which numbers represent exactly.
  if (Math.abs(a) < 1e9 && Math.abs(b) < 1e9 && isShort(a) && isShort(b)) {
    return (Math.round(a * MILLION) + Math.round(b * MILLION)) / MILLION;
  }
  return total([a, b]);
}

/**
 * Returns true if `value` is a whole multiple of `step`, without binary residue: 0.3 is one of 0.1. An infinite step has no
 * multiples.
 */
export function isMultipleOf(value: number, step: number): boolean {
  const times = value / step;
  return Number.isInteger(value) && Number.isInteger(step)
    ? value % step === 0
    : Number.isFinite(step) && Math.abs(times - Math.round(times)) < 1e-9;
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

/** Returns a number as whole digits times a power of ten. */
function decimalOf(value: number): { digits: bigint; exponent: number } {
  const [mantissa = "0", exponent = "0"] = value.toExponential().split("e");
  const [whole = "0", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}

/**
 * Sums products of finite numbers in exact decimals, and rounds once, to the nearest number. 0.1 × 3 is 0.3, and ten times
 * 0.1 is 1. A sum beyond the largest number is infinite.
 */
export function sumOfProducts(products: readonly (readonly [number, number])[]): number {
  const parts = products.map(([a, b]) => {
    const [one, other] = [decimalOf(a), decimalOf(b)];
    return { digits: one.digits * other.digits, exponent: one.exponent + other.exponent };
  });
  const lowest = Math.min(0, ...parts.map(({ exponent }) => exponent));
  const digits = parts.reduce((sum, part) => sum + part.digits * 10n ** BigInt(part.exponent - lowest), 0n);
  return Number(`${digits}e${lowest}`);
}

/** Sums finite numbers in exact decimals. */
export const total = (values: readonly number[]): number => sumOfProducts(values.map((value) => [value, 1]));
