import { type Pricing, type PricingProblem, problemText } from "../core/pricing/model.ts";
import { refuseWrongCredits } from "../core/pricing/parse/credit-problems.ts";
import { parsePricing } from "../core/pricing/parse/pricing.ts";
import { CliFailure, type Io } from "./command.ts";

/** Formats one problem per line, as `path:line:column`, which editors and terminals turn into links. */
export function listProblems(path: string, problems: readonly PricingProblem[]): string {
  return problems.map((problem) => `\n  ${path}:${problem.line}:${problem.column} ${problemText(problem)}`).join("");
}

/**
 * Reads a file that must exist.
 * @throws CliFailure
 */
export async function readRequired(path: string, io: Io): Promise<string> {
  const source = await io.readFile(path);
  if (source === undefined) throw new CliFailure(`${path} does not exist.`);
  return source;
}

/**
 * Reads and parses a pricing file.
 * @throws CliFailure with the line of every problem.
 */
export async function readPricingFile(path: string, io: Io): Promise<{ source: string; pricing: Pricing }> {
  const source = await readRequired(path, io);
  const read = refuseWrongCredits(parsePricing(source, io.now()), source);
  if (!read.ok) throw new CliFailure(`${path} is not a valid pricing:${listProblems(path, read.problems)}`);
  return { source, pricing: read.pricing };
}
