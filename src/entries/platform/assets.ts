import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isPackaged } from "../../core/command-line.ts";
import type { ReadAsset } from "../../http/routes/documentation.ts";

/** Where `npm run build:console` puts the console. */
export const CONSOLE_FOLDER = fileURLToPath(new URL("../../../dist/console", import.meta.url));

/** Where the build of the npm package copies the reference page's library. */
const PACKAGED_LIBRARY = fileURLToPath(new URL("../../../dist/docs", import.meta.url));

/** Reads the reference page's library from where npm put it. */
export const readAsset = folderReader(
  isPackaged ? PACKAGED_LIBRARY : dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json")),
);

/** Reads the built console. */
export const readConsole = folderReader(CONSOLE_FOLDER);

function folderReader(folder: string): ReadAsset {
  return async (name) => {
    try {
      return new Uint8Array(await readFile(join(folder, name)));
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  };
}
