import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Guide } from "../../http/guides.ts";

/*
 * The guides of src/docs as files beside the built console, from where every runtime serves them: to agents as resources,
 * and to everybody as /docs/<name>.md. llms.txt is one page for coding agents, in the format of llmstxt.org.
 */

const FOLDER = fileURLToPath(new URL("../../docs", import.meta.url));
const FOR_AGENTS = "llms.txt";

/** Returns the files by path: the guides, the page for coding agents, and their list. */
export function guideFiles(): Record<string, string> {
  const read = (name: string) => readFileSync(join(FOLDER, name), "utf8");
  const guides = readdirSync(FOLDER).filter((name) => name.endsWith(".md"));
  const texts: Record<string, string> = {
    // Served at the root, above the guides that it links.
    [FOR_AGENTS]: read(FOR_AGENTS).replaceAll(/\]\((?=[\w-]+\.md\))/g, "](docs/"),
    ...Object.fromEntries(guides.map((name) => [`docs/${name}`, read(name)])),
  };
  return { ...texts, "docs/index.json": JSON.stringify(Object.entries(texts).map(guideOf)) };
}

/** Reads the title of a guide, and the sentence below it. */
function guideOf([path, text]: [path: string, text: string]): Guide {
  const name = path.replace(/^docs\/|\.\w+$/g, "");
  const title = path === FOR_AGENTS ? "Integrate Faregate" : (/^# (.+)$/m.exec(text)?.[1] ?? name);
  const paragraph = /^# .+\n\n([\s\S]+?)\n\n/.exec(text)?.[1] ?? title;
  const sentence = /^[\s\S]+?\.(?=\s|$)/.exec(paragraph)?.[0] ?? paragraph;
  return { name, path, title, description: sentence.replaceAll(/\n(> )?/g, " ").replace(/^> /, "") };
}
