import type { ReadAsset } from "./routes/documentation.ts";

/** A guide of src/docs. */
export interface Guide {
  /** Name of its file, without the ending. */
  name: string;
  title: string;
  description: string;
}

/** Path of a guide's text, beside the console and at the root. */
export const guidePath = (name: string) => `docs/${name}.md`;

async function textOf(read: ReadAsset, name: string): Promise<string | undefined> {
  const bytes = await read(name);
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

/** Lists the guides that the console was built with. None without a built console. */
export async function listGuides(read: ReadAsset): Promise<readonly Guide[]> {
  const text = await textOf(read, "docs/index.json");
  return text === undefined ? [] : (JSON.parse(text) as Guide[]);
}

/** Returns the text of a guide. Undefined if there is none of this name. */
export async function readGuide(read: ReadAsset, name: string): Promise<string | undefined> {
  return /^[\w-]{1,100}$/.test(name) ? textOf(read, guidePath(name)) : undefined;
}
