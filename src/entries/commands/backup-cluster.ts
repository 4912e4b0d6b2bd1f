import { existsSync, statSync } from "node:fs";
import { chmod, copyFile, lchown, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";
import { chooseRunner, openDataFolder } from "../../db/postgres/embedded-machine.ts";
import { isSocket } from "../../db/postgres/embedded-socket.ts";

/*
 * Copies the running embedded cluster by Postgres' low-level base backup API. Changes during the copy are in the WAL, which
 * is copied last and replayed at the first start. A temporary replication slot retains that WAL meanwhile. The embedded
 * Postgres ships without pg_basebackup, so no tool is used. Source: PostgreSQL manual, "Making a Base Backup Using the Low
 * Level API".
 */

/** Folders copied empty: Postgres rebuilds their content at startup, or it belongs to the running server only. */
const EMPTIED = new Set([
  "pg_wal",
  "pg_replslot",
  "pg_dynshmem",
  "pg_notify",
  "pg_serial",
  "pg_snapshots",
  "pg_stat_tmp",
  "pg_subtrans",
]);
const LEFT_OUT = /^(postmaster\.(pid|opts)|backup_label.*|pgsql_tmp.*|pg_internal\.init.*)$/;

/**
 * Copies cluster and secrets into an empty folder. The copy contains everything committed before this call.
 * @returns the size in bytes.
 */
export async function backUpCluster(
  databaseUrl: string,
  { dataDir, folder }: { dataDir: string; folder: string },
): Promise<number> {
  const cluster = join(dataDir, "postgres");
  const copy = join(folder, "postgres");
  const connection = connect(databaseUrl, { maxConnections: 1, applicationName: "faregate-backup" });
  try {
    const session = await connection.client.reserve();
    try {
      await session`select pg_create_physical_replication_slot(${`faregate_backup_${process.pid}`}, true, true)`;
      await session`select pg_backup_start('faregate', true)`;
      let bytes = await copyFolder(cluster, copy, true);
      const [stopped] = await session<{ label: string; spaces: string }[]>`
        select labelfile as label, spcmapfile as spaces from pg_backup_stop(false)`;
      await writeFile(join(copy, "backup_label"), stopped?.label ?? "", { mode: 0o600 });
      bytes += await copyFolder(join(cluster, "pg_wal"), join(copy, "pg_wal"), false);
      await copyFile(join(dataDir, "secrets.json"), join(folder, "secrets.json"));
      await chmod(join(folder, "secrets.json"), 0o600);
      return bytes;
    } finally {
      session.release();
    }
  } finally {
    await connection.close();
  }
}

/**
 * Copies a backup into a data folder without cluster and secrets, before Postgres starts. Copies under temporary names and
 * renames at the end: after an interruption, a start finds no partial cluster and the restore can be repeated. The cluster
 * is renamed first, because without its secrets it refuses to start, whereas secrets alone would start an empty cluster.
 * @throws StartupProblem when either exists already.
 */
export async function restoreCluster(folder: string, dataDir: string): Promise<void> {
  const target = openDataFolder(dataDir);
  const parts = ["postgres", "secrets.json"].map((name) => {
    const final = join(target, name);
    return { source: join(folder, name), unfinished: `${final}.restoring`, final };
  });
  for (const { final } of parts) {
    if (existsSync(final)) {
      throw new StartupProblem(`${final} exists: restore into a new DATA_DIR, nothing is written over.`);
    }
  }
  const { owner } = await chooseRunner(target);
  const removeUnfinished = async () => {
    for (const { unfinished } of parts) await rm(unfinished, { recursive: true, force: true });
  };
  await removeUnfinished();
  try {
    for (const { source, unfinished } of parts) {
      if (statSync(source).isDirectory()) await copyFolder(source, unfinished, false, owner);
      else {
        await copyFile(source, unfinished);
        await chmod(unfinished, 0o600);
      }
    }
    for (const { unfinished, final } of parts) await rename(unfinished, final);
  } finally {
    await removeUnfinished();
  }
}

/**
 * Copies a folder recursively. Skips files that vanish meanwhile: they were temporary, or the WAL has their changes.
 */
async function copyFolder(
  from: string,
  to: string,
  isCluster: boolean,
  owner?: { uid: number; gid: number },
): Promise<number> {
  await mkdir(to, { recursive: true, mode: 0o700 });
  if (owner !== undefined) await lchown(to, owner.uid, owner.gid);
  let bytes = 0;
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (isCluster && (LEFT_OUT.test(entry.name) || isSocket(entry.name))) continue;
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    try {
      if (entry.isDirectory()) {
        if (isCluster && EMPTIED.has(entry.name)) await mkdir(target, { mode: 0o700 });
        else bytes += await copyFolder(source, target, isCluster, owner);
      } else if (entry.isFile()) {
        await copyFile(source, target);
        if (owner !== undefined) await lchown(target, owner.uid, owner.gid);
        bytes += statSync(target).size;
      }
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
    }
  }
  return bytes;
}
