import * as events from "./events.ts";
import * as pricing from "./pricing.ts";
import * as usage from "./usage.ts";

/*
 * `npm run bench [-- --quick] [-- usage]`: every figure is a ratio of two things measured in this run. Exits 1 when one
 * falls short of its target.
 */

const SUITES = { pricing, usage, events };
const quick = process.argv.includes("--quick");
const wanted = Object.entries(SUITES).filter(
  ([name]) => !process.argv.slice(2).some((word) => word in SUITES) || process.argv.includes(name),
);

let missed = 0;
for (const [name, suite] of wanted) {
  console.log(`\n${name}`);
  for (const { name: what, value, target, ok } of await suite.run({ quick })) {
    if (!ok) missed += 1;
    console.log(`${ok ? "ok  " : "MISS"} ${value.toFixed(2).padStart(7)}  ${target.padEnd(9)}  ${what}`);
  }
}
process.exitCode = missed === 0 ? 0 : 1;
