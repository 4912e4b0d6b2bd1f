import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Returns the licences of the packages that these bundled files belong to, as their licences demand of a copy.
 * @throws Error for a package that names no licence.
 */
export function licencesOf(files: readonly string[]): { name: string; text: string }[] {
  const folders = new Set(files.flatMap((file) => /^.*\bnode_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []));
  return [...folders].sort().map((folder) => {
    const name = folder.split("node_modules/").at(-1) ?? folder;
    const texts = readdirSync(folder).filter((file) => /^(un)?(licen[cs]e|notice)/i.test(file));
    const { license }: { license?: string } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    if (texts.length === 0 && (license === undefined || !existsSync(folder))) throw new Error(`${name} has no licence`);
    const text = texts.map((file) => readFileSync(join(folder, file), "utf8").trim()).join("\n\n");
    return { name, text: text === "" ? `Licence: ${license}` : text };
  });
}
