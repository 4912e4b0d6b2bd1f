import { Option } from "commander";
import type { Finding, Severity } from "../core/change/finding.ts";
import { lintPricing } from "../core/change/lint/lint.ts";
import { CliFailure, type CliCommand, EXIT } from "./command.ts";
import { readPricingFile } from "./pricing-file.ts";

interface Options {
  json?: true;
  failOn: Severity | "never";
}

const SEVERITIES: readonly Severity[] = ["error", "warning", "info"];

/** `faregate lint` reports valid but useless parts of a pricing. */
export const lint: CliCommand = {
  name: "lint",
  summary: "Find features that are never on, plans nobody would buy, limits that hold nobody back, and the like.",
  declare(command) {
    command
      .argument("<pricing...>", "pricing files in YAML")
      .option("--json", "print the findings as JSON, by file")
      .addOption(
        new Option("--fail-on <severity>", "exit with 1 on findings of this severity or a worse one")
          .choices([...SEVERITIES, "never"])
          .default("error"),
      );
  },
  async run(given, io) {
    const { json, failOn } = given.opts<Options>();
    const files: { path: string; findings: Finding[] }[] = [];
    const failures: { path: string; error: string }[] = [];
    for (const path of given.args) {
      try {
        const { pricing, source } = await readPricingFile(path, io);
        files.push({ path, findings: lintPricing(pricing, source) });
      } catch (error) {
        if (!(error instanceof CliFailure)) throw error;
        failures.push({ path, error: error.message });
        io.err(`faregate: ${error.message}\n`);
      }
    }
    if (json === true) io.out(`${JSON.stringify([...files, ...failures], null, 2)}\n`);
    else
      for (const { path, findings } of files) {
        for (const { line, column, severity, code, message } of findings)
          io.out(`${path}:${line}:${column} ${severity} ${code}: ${message}\n`);
        if (findings.length === 0) io.out(`${path}: nothing found\n`);
      }
    const worst = SEVERITIES.findIndex((each) =>
      files.some(({ findings }) => findings.some(({ severity }) => severity === each)),
    );
    const bad = failOn !== "never" && worst >= 0 && worst <= SEVERITIES.indexOf(failOn);
    if (failures.length > 0) return EXIT.failed;
    return bad ? EXIT.no : EXIT.done;
  },
};
