import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { load } from "js-yaml";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import type { Pricing } from "../../../src/core/pricing/model.ts";

/** Current date of every case. */
export const TODAY = new Date("2026-01-01T00:00:00Z");

/** One rule of the language as data. `cases/README.md` explains the fields. */
export interface Case {
  readonly name: string;
  readonly text?: string;
  readonly insert?: string;
  readonly refused?: string;
  readonly also?: readonly string[];
  readonly path?: string;
  readonly line?: number;
  readonly column?: number;
  readonly kind?: string;
  readonly accepted?: Readonly<Record<string, unknown>>;
  readonly model?: Readonly<Record<string, unknown>>;
  readonly service?: string;
  readonly subscription?: { readonly plan?: string; readonly addOns?: Readonly<Record<string, number>> };
  readonly verdict?: unknown;
  readonly usage?: Readonly<Record<string, number>>;
  readonly server?: boolean;
  readonly contexts?: unknown;
  readonly bulk?: readonly string[];
  readonly results?: Readonly<Record<string, unknown>>;
  readonly consumption?: Readonly<Record<string, number>>;
  readonly expected?: unknown;
}

const FOLDER = fileURLToPath(new URL("cases/", import.meta.url));

export const CASE_FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".yml"));

/** The cases of one file, each with its whole text and the fields that the file shares. */
export function readCases(file: string): readonly (Case & { readonly text: string })[] {
  const { template, cases, ...shared } = load(readFileSync(FOLDER + file, "utf8")) as {
    template: string;
    cases: readonly Case[];
  };
  return cases.map((each) => {
    const fill = (line: string): string => {
      if (line.trim() !== "%") return line;
      const indent = line.slice(0, line.indexOf("%"));
      return (each.insert ?? "").replace(/^/gm, indent);
    };
    const text = each.text ?? template.split("\n").map(fill).join("\n");
    return { ...shared, ...each, text };
  });
}

/** Returns the value at a path of keys joined by dots. */
export function at(value: unknown, path: string): unknown {
  let current = value;
  for (const key of path.split(".")) {
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, key)) return undefined;
    current = (current as Record<string, unknown>)[key];
  }
  return current;
}

/** Parses an acceptable text. */
export function accept(text: string): Pricing {
  const result = parsePricing(text, TODAY);
  if (!result.ok) throw new Error(result.problems.map((each) => `${each.line}: ${each.message}`).join("\n"));
  return result.pricing;
}
