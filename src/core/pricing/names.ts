/** Comparison key of a service name, used by contracts and feature ids. Names are stored trimmed. */
export function serviceKey(name: string): string {
  return name.toLowerCase();
}

/** Comparison key of a version: `_` equals `.`, as in the reference service. */
export function versionKey(version: string): string {
  return version.replaceAll("_", ".");
}

/**
 * Returns true for `.` and `..`. URLs resolve these segments away, so that a call for one resource with such an id would
 * reach its list: deleting the contract `.` would delete all. Source: RFC 3986 §5.2.4.
 */
export function isDotSegment(id: string): boolean {
  return id === "." || id === "..";
}
