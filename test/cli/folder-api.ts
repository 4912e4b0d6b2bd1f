import type { Io } from "../../src/cli/command.ts";
import type { TestApi } from "../support/api.ts";
import { type Run, runFaregate } from "./io.ts";

/** Runs a command against the application, in process. Returns also the calls that changed something. */
export async function runAgainst(
  api: TestApi,
  key: string,
  args: readonly string[],
  files: Readonly<Record<string, string>> = {},
  machine: Partial<Io> = {},
): Promise<Run & { calls: string[] }> {
  const calls: string[] = [];
  const run = await runFaregate(args, files, {
    env: { FAREGATE_URL: "http://faregate.test", FAREGATE_API_KEY: key },
    fetch: async (input, init) => {
      const url = new URL(input instanceof Request ? input.url : input);
      const method = init?.method ?? "GET";
      if (method !== "GET" && !url.pathname.endsWith("/impact")) calls.push(`${method} ${url.pathname}${url.search}`);
      return api.app.request(url.href, init);
    },
    ...machine,
  });
  return { ...run, calls };
}

/** A version of a folder. */
export interface VersionFiles {
  pricing: string;
  state?: "active" | "archived";
  expectations?: string;
}

/** Builds the files of a folder with one service, below `pricings/`. `rest` are further lines of the manifest. */
export function folderOf(
  name: string,
  versions: Readonly<Record<string, VersionFiles>>,
  { service = "", rest = "" }: { service?: string; rest?: string } = {},
): Record<string, string> {
  const files: Record<string, string> = {};
  const lines = Object.entries(versions).map(([version, { pricing, state, expectations }]) => {
    files[`pricings/${version}.yml`] = pricing;
    if (expectations !== undefined) files[`pricings/${version}.expectations.yml`] = expectations;
    const beside = expectations === undefined ? "" : `, expectations: ${version}.expectations.yml`;
    return `      - { file: ${version}.yml${state === undefined ? "" : `, state: ${state}`}${beside} }\n`;
  });
  files["pricings/faregate.yml"] =
    `faregate: 1\nservices:\n  ${name}:\n${service}    versions:\n${lines.join("")}${rest}`;
  return files;
}
