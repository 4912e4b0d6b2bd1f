import type { ReadAsset } from "./routes/documentation.ts";

/** A text of src/docs. */
export interface Guide {
  /** Name of its file, without the ending. */
  name: string;
  /** Path of its file, beside the console and at the root of the server. */
  path: string;
  title: string;
  description: string;
}

/** Returns the text at a path of a guide. Undefined without a built console. */
export async function readGuide(read: ReadAsset, path: string): Promise<string | undefined> {
  const bytes = await read(path);
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

/** Lists the guides that the console was built with. None without a built console. */
export async function listGuides(read: ReadAsset): Promise<readonly Guide[]> {
  const text = await readGuide(read, "docs/index.json");
  return text === undefined ? [] : (JSON.parse(text) as Guide[]);
}
