import { readFileSync } from "node:fs";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import * as hostile from "../../support/hostile-pricings.ts";
import { TODAY } from "./case-file.ts";

/* Reads one hostile pricing in its own process and prints the cost. Argument: the name of the attack. */

const attack = Object.entries(hostile).find(([name]) => name === process.argv[2])?.[1];
if (attack === undefined) throw new Error("there is no such attack");
const text = attack();
const start = process.cpuUsage();
const result = parsePricing(text, TODAY);
const { user, system } = process.cpuUsage(start);
const problems = result.ok ? [] : result.problems;
globalThis.gc?.();
console.log(
  JSON.stringify({
    processorMs: (user + system) / 1000,
    peakMB: Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024,
    messages: problems.map(({ message }) => message),
    paths: problems.map(({ path }) => path),
  }),
);
