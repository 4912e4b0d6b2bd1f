import { build } from "esbuild";

/** Bundles an entry with all its imports into one file, as for a browser or a Worker. */
export async function bundle(
  entry: string,
  format: { format: "iife"; globalName: string } | { format: "esm" },
): Promise<string> {
  const result = await build({ entryPoints: [entry], bundle: true, write: false, platform: "browser", ...format });
  const [file] = result.outputFiles;
  if (file === undefined) throw new Error("esbuild wrote nothing");
  return file.text;
}
