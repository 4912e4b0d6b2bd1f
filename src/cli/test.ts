import { Option } from "commander";
import { coverageOf } from "../core/change/expectations/coverage.ts";
import { runExpectation } from "../core/change/expectations/run.ts";
import { parseExpectations } from "../core/change/expectations/expectations.ts";
import { createSide } from "../core/change/entitlements.ts";
import { compilePricing } from "../core/pricing/compile.ts";
import { type CliCommand, CliFailure, EXIT } from "./command.ts";
import { listProblems, readPricingFile, readRequired } from "./pricing-file.ts";

interface Options {
  json?: true;
  coverage?: number;
}

/** Maximum of uncovered points in the text output; JSON contains all. */
const MAX_LISTED = 10;

/** `faregate test` checks a pricing against its expectations. */
export const test: CliCommand = {
  name: "test",
  summary: "Hold a pricing against the expectations written beside it.",
  declare(command) {
    command
      .argument("[pricing]", "the pricing file", "pricing.yml")
      .argument("[expectations]", "the file with expectations; <pricing>.expectations.yml when left out")
      .option("--json", "print results and coverage as JSON")
      .addOption(
        new Option(
          "--coverage <percent>",
          "exit with 1 when less of plans, features and limit edges is covered",
        ).argParser(percentOf),
      );
  },
  async run(given, io) {
    const { json, coverage: wanted } = given.opts<Options>();
    const path = given.args[0] ?? "pricing.yml";
    const beside = given.args[1] ?? path.replace(/\.(?:ya?ml|json)$/i, "") + ".expectations.yml";
    const { pricing } = await readPricingFile(path, io);
    const read = parseExpectations(await readRequired(beside, io), pricing);
    if (!read.ok) throw new CliFailure(`${beside} cannot be used:${listProblems(beside, read.problems)}`);
    const side = createSide(compilePricing(pricing));
    const results = read.expectations.map((expectation) => runExpectation(side, expectation));
    const coverage = coverageOf(side, read.expectations);
    const failed = results.filter(({ misses }) => misses.length > 0);
    if (json === true) io.out(`${JSON.stringify({ results, coverage }, null, 2)}\n`);
    else {
      for (const { expectation, misses } of failed) {
        // The default name is the line, which the place already shows.
        const isNamed = expectation.name !== `line ${expectation.line}`;
        io.out(`${beside}:${expectation.line}${isNamed ? ` ${expectation.name}` : ""}\n`);
        for (const { line, message } of misses) io.out(`  line ${line}: ${message}\n`);
      }
      const held = results.length - failed.length;
      io.out(`${held} of ${results.length} ${results.length === 1 ? "expectation holds" : "expectations hold"}; `);
      io.out(
        `${coverage.percent} % of plans, features and limit edges are covered (${coverage.covered} of ${coverage.points})\n`,
      );
      const short = wanted !== undefined && coverage.percent < wanted;
      for (const point of short ? coverage.missing.slice(0, MAX_LISTED) : []) io.out(`  not covered: ${point}\n`);
    }
    return failed.length > 0 || (wanted !== undefined && coverage.percent < wanted) ? EXIT.no : EXIT.done;
  },
};

function percentOf(text: string): number {
  const percent = Number(text);
  if (text.trim() !== "" && percent >= 0 && percent <= 100) return percent;
  throw new CliFailure(`--coverage must be a number from 0 to 100. Received: ${text}`);
}
