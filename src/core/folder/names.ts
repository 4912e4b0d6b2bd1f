import { MANIFEST } from "./manifest.ts";

/** Turns a name into a part of a path: lower case, without characters that a file system could refuse. */
const partOf = (name: string) => {
  const part = name.toLowerCase().replaceAll(/[^a-z0-9._-]/g, "-");
  // A path must not step out of the folder.
  return /^\.+$/.test(part) ? part.replaceAll(".", "-") : part;
};

/** Chooses paths that are free. A clash gets a number from 2. */
export class Names {
  readonly #files: Set<string>;
  readonly #folders = new Set<string>([MANIFEST]);

  constructor(taken: readonly string[]) {
    this.#files = new Set(taken);
  }

  /** Chooses the folder of a service. */
  folder(name: string): string {
    return claim(this.#folders, partOf(name), "");
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
