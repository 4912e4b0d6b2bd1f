/** Comparison key of a service name, used by contracts and feature ids. Names are stored trimmed. */
export function serviceKey(name: string): string {
  return name.toLowerCase();
}

/** Comparison key of a version: `_` equals `.`, as in the reference service. */
export function versionKey(version: string): string {
  return version.replaceAll("_", ".");
}
