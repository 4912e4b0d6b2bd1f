import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { ReadAsset } from "../http/routes/documentation.ts";

const FOLDER = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

/** Reads the reference page's library from where npm put it. */
export const readAsset: ReadAsset = async (name) => {
  try {
    return new Uint8Array(await readFile(join(FOLDER, name)));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
};
