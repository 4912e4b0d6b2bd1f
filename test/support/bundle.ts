import { build } from "esbuild";

/** One file with everything that the entry imports, as a browser or a worker would get it. */
export async function bundle(
  entry: string,
  format: { format: "iife"; globalName: string } | { format: "esm" },
): Promise<string> {
  const result = await build({ entryPoints: [entry], bundle: true, write: false, platform: "browser", ...format });
  const [file] = result.outputFiles;
  if (file === undefined) throw new Error("esbuild wrote nothing");
  return file.text;
}
