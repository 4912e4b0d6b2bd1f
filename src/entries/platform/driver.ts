import { fileURLToPath } from "node:url";
import { isPackaged } from "../../core/command-line.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { type DriverBuild, driverFolder, unrepairedFiles } from "../build/patch-driver.ts";

/** Set by `npm run build:server`, which copies the driver beside the servers. Undefined where the sources run. */
declare const DRIVER_COPY: string | undefined;

/** Set by the build of the npm package `faregate`, which has checked the driver that it bundles. */
declare const IS_COMMAND_LINE: true | undefined;

/** Why the driver cannot be used, and how to repair it; undefined when it has all repairs of this release. */
export function driverProblem(builds: readonly DriverBuild[]): string | undefined {
  const isInstalled = typeof DRIVER_COPY === "undefined";
  const root = isInstalled ? driverFolder() : fileURLToPath(new URL(DRIVER_COPY, import.meta.url));
  const files = unrepairedFiles(root, isInstalled ? builds : ["."]);
  if (files.length === 0) return undefined;
  const problem = `The database driver is installed without its repairs (${isInstalled ? "node_modules/postgres" : root}: ${files.join(", ")})`;
  if (isPackaged) return `${problem}: install faregate-server again.`;
  if (!isInstalled) return `${problem}: \`npm run build:server\` builds it again.`;
  return `${problem}, as \`npm ci --ignore-scripts\` leaves it: \`npm run postinstall\` repairs it.`;
}

/**
 * Reads two files of the driver, some 60 kB. Unrepaired it loses connections, and statements on them, without an error;
 * see patch-driver.ts. @throws StartupProblem
 */
export function requireRepairedDriver(build: DriverBuild = "src"): void {
  if (typeof IS_COMMAND_LINE !== "undefined") return;
  const problem = driverProblem([build]);
  if (problem !== undefined) throw new StartupProblem(problem);
}
