import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Guide } from "../../http/guides.ts";

/*
 * The guides of src/docs as files beside the built console, from where every runtime serves them: to agents as resources,
 * and to everybody as /docs/<name>.md.
 */

const FOLDER = fileURLToPath(new URL("../../docs", import.meta.url));

/** Returns the files by name: the guides as they are, and their list. */
export function guideFiles(): Record<string, string> {
  const texts = readdirSync(FOLDER)
    .filter((name) => name.endsWith(".md"))
    .map((name) => [name, readFileSync(join(FOLDER, name), "utf8")] as const);
  const guides = texts.map(([name, text]) => guideOf(name.replace(/\.md$/, ""), text));
  return {
    ...Object.fromEntries(texts.map(([name, text]) => [`docs/${name}`, text])),
    "docs/index.json": JSON.stringify(guides),
  };
}

/** Reads the title of a guide, and the sentence below it. */
function guideOf(name: string, text: string): Guide {
  const title = /^# (.+)$/m.exec(text)?.[1] ?? name;
  const paragraph = /^# .+\n\n([\s\S]+?)\n\n/.exec(text)?.[1] ?? title;
  const sentence = /^[\s\S]+?\.(?=\s|$)/.exec(paragraph)?.[0] ?? paragraph;
  return { name, title, description: sentence.replaceAll("\n", " ") };
}
