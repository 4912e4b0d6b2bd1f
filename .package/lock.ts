/** An entry of package-lock.json. */
interface Locked {
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  dev?: boolean;
  devOptional?: boolean;
  optional?: boolean;
}

export interface Lock {
  name: string;
  version: string;
  lockfileVersion: number;
  requires: boolean;
  packages: Record<string, Locked>;
}

/**
 * Returns the part of a lock file that a package with these dependencies installs, for its npm-shrinkwrap.json: users then
 * run the versions that the tests ran.
 */
export function shrinkwrapOf(
  lock: Lock,
  manifest: { name: string; version: string } & Required<Pick<Locked, "dependencies" | "optionalDependencies">>,
): Lock {
  const reached: Record<string, Locked> = {};
  const reach = (from: string, name: string) => {
    const path = resolve(lock, from, name);
    // npm leaves out optional packages that do not fit any platform of the lock.
    if (path === undefined || path in reached) return;
    const locked = lock.packages[path] ?? {};
    const { dev: _, devOptional: __, ...entry } = locked;
    reached[path] = entry;
    const { dependencies, optionalDependencies } = locked;
    for (const next of Object.keys({ ...dependencies, ...optionalDependencies })) reach(path, next);
  };
  for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) reach("", name);
  const { name, version } = manifest;
  const { lockfileVersion, requires } = lock;
  const sorted = Object.fromEntries(Object.entries(reached).sort(([a], [b]) => (a < b ? -1 : 1)));
  return { name, version, lockfileVersion, requires, packages: { "": manifest, ...sorted } };
}

/** Finds a package as Node does: in the folder itself, then in those above it. */
function resolve(lock: Lock, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const path = `${folder === "" ? "" : `${folder}/`}node_modules/${name}`;
    if (path in lock.packages) return path;
    if (folder === "") return undefined;
  }
}
