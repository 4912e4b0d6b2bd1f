import { gzipSync } from "node:zlib";
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

/** A file that an application loads, compressed with gzip. */
export interface LoadedFile {
  bytes: number;
  /** Paths of the sources that are in it, relative to the application's folder. */
  sources: readonly string[];
}

/**
 * Builds an application for production as bundlers do: minified, with a file for each part that is loaded
 * later. Returns what the application loads before it runs: its own file first, then all that it imports statically.
 * esbuild makes a file of its own of each module that a later part shares, so this is the worst case of the bundlers.
 */
export async function firstLoad(source: string, folder: string, external: string[]): Promise<LoadedFile[]> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: source, resolveDir: folder },
    absWorkingDir: folder,
    outdir: "out",
    bundle: true,
    splitting: true,
    minify: true,
    metafile: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2020",
    define: { "process.env.NODE_ENV": '"production"' },
    external,
  });
  const files = new Map(outputFiles.map(({ path, contents }) => [path.split("/").at(-1), contents]));
  const [entry] = Object.entries(metafile.outputs).flatMap(([path, { entryPoint }]) =>
    entryPoint === "<stdin>" ? [path] : [],
  );
  const reached = new Set<string>();
  const reach = (path: string) => {
    const output = metafile.outputs[path];
    if (output === undefined || reached.has(path)) return;
    reached.add(path);
    for (const { path: next, kind } of output.imports) if (kind === "import-statement") reach(next);
  };
  reach(entry ?? "");
  return [...reached].map((path) => ({
    bytes: gzipSync(files.get(path.split("/").at(-1)) ?? "", { level: 9 }).length,
    sources: Object.keys(metafile.outputs[path]?.inputs ?? {}),
  }));
}
