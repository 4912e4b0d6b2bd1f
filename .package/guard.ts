import { createRequire } from "node:module";

const SENTENCE =
  "faregate is linked as a folder, so it cannot find your application's React. Install the tarball of `npm pack`, or make your bundler resolve react from the application (Vite: resolve.dedupe, webpack: resolve.symlinks).";

/**
 * Files of a package that stands in for React in a folder that is linked instead of installed. Without it, Node and
 * bundlers would find React beside the sources, a second copy in which hooks fail. npm packs no node_modules, so an
 * installed package uses the application's React.
 */
export function reactGuard(): Record<string, string> {
  const require = createRequire(import.meta.url);
  const files: Record<string, string> = {};
  const exports: Record<string, string> = {};
  for (const entry of [".", "./jsx-runtime", "./jsx-dev-runtime"]) {
    const file = `${entry === "." ? "./index" : entry}.cjs`;
    // Modules that import names are linked before this one runs, so every name must exist.
    const names = Object.keys(require(`react${entry.slice(1)}`)).map((name) => `exports.${name} = `);
    files[file] = `${names.join("")}undefined;\nthrow new Error(${JSON.stringify(SENTENCE)});\n`;
    exports[entry] = file;
  }
  files["package.json"] = `${JSON.stringify({ name: "react", version: "0.0.0", exports })}\n`;
  return files;
}
