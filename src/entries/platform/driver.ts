import { StartupProblem } from "../../db/postgres/connect.ts";
import { type DriverBuild, unrepairedFiles } from "../build/patch-driver.ts";

/** Why the driver cannot be used, and how to repair it; undefined when the builds have all repairs of this release. */
export function driverProblem(builds: readonly DriverBuild[]): string | undefined {
  const files = unrepairedFiles(builds);
  if (files.length === 0) return undefined;
  return `The database driver is installed without its repairs (node_modules/postgres: ${files.join(", ")}), as \`npm ci --ignore-scripts\` leaves it: \`npm run postinstall\` repairs it.`;
}

/**
 * Reads two files of the installed driver, some 60 kB. Unrepaired it loses connections, and statements on them, without a
 * word; see patch-driver.ts. @throws StartupProblem
 */
export function requireRepairedDriver(build: DriverBuild = "src"): void {
  const problem = driverProblem([build]);
  if (problem !== undefined) throw new StartupProblem(problem);
}
