import { existsSync, mkdtempSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Linux keeps its files in memory. */
const MEMORY = "/dev/shm";
/** More than the databases of any circle take at once. */
const NEEDED_BYTES = 6 * 2 ** 30;

/** Parent of the tests' clusters: in memory where there is room, because there no database waits for the disk. */
const parent = (): string => {
  if (!existsSync(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize > NEEDED_BYTES ? MEMORY : tmpdir();
};

/** Makes a folder for a cluster. The caller removes it. */
export const makeDatabaseFolder = (name: string): string => mkdtempSync(join(parent(), `faregate-${name}-`));

/** True if copying files costs a database less than logging each of its pages. */
export const isInMemory = (folder: string): boolean => folder.startsWith(`${MEMORY}/`);
