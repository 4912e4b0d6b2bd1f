import { MANIFEST } from "./manifest.ts";

/** Names that Windows reads as devices, whatever ending they have. */
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/;
/** Leaves room for endings and numbers below the 255 bytes of most file systems. */
const MAX_LENGTH = 220;

/** Turns a name into a part of a path: lower case, without what a file system could refuse or Git takes for its own. */
const partOf = (name: string) => {
  const part = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, "-")
    .slice(0, MAX_LENGTH);
  // A path must not step out of the folder.
  if (/^\.+$/.test(part)) return part.replaceAll(".", "-");
  if (part === ".git") return "_git";
  return DEVICE.test(part) ? `_${part}` : part;
};

/**
 * Returns the former name that a folder must give for a service; undefined if a file has the service's own name.
 * `saasNames` are the names in its files, in the order of upload.
 */
export function formerName(name: string, saasNames: readonly string[]): string | undefined {
  const isOwn = saasNames.some((each) => each.toLowerCase() === name.toLowerCase());
  return isOwn ? undefined : saasNames.at(-1);
}

/** Chooses paths that are free. A clash gets a number from 2. */
export class Names {
  readonly #files: Set<string>;
  readonly #folders = new Set<string>([MANIFEST]);

  constructor(taken: readonly string[]) {
    this.#files = new Set(taken.map((path) => path.toLowerCase()));
  }

  /** Chooses the folder of a service. */
  folder(name: string): string {
    // Windows drops dots at the end.
    return claim(this.#folders, partOf(name).replace(/\.$/, "-"), "");
  }

  /** Chooses the file of a version. */
  file(folder: string, version: string, ending: ".yml" | ".expectations.yml"): string {
    return claim(this.#files, `${folder}/${partOf(version)}`, ending);
  }
}

function claim(taken: Set<string>, stem: string, ending: string): string {
  let name = `${stem}${ending}`;
  for (let number = 2; taken.has(name); number += 1) name = `${stem}-${number}${ending}`;
  taken.add(name);
  return name;
}
