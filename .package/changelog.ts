/** Sections of the changelog by the type of a commit. Other types change nothing for users. */
const SECTIONS = new Map([
  ["feat", "Added"],
  ["fix", "Fixed"],
  ["perf", "Faster"],
  ["revert", "Reverted"],
]);

/** Returns a release's entry, from the subjects of its commits, oldest first. Breaking changes (`feat!: …`) come first. */
export function changelogEntry(version: string, date: string, subjects: readonly string[]): string {
  const lines = new Map<string, string[]>(["Breaking", ...SECTIONS.values()].map((title) => [title, []]));
  for (const subject of subjects) {
    const [, type = "", area, breaking, text = ""] = /^(\w+)(?:\(([^)]+)\))?(!)?: (.+)$/.exec(subject) ?? [];
    const title = breaking === undefined ? SECTIONS.get(type) : "Breaking";
    if (title !== undefined) lines.get(title)?.push(`- ${area === undefined ? "" : `**${area}**: `}${text}`);
  }
  const sections = [...lines].flatMap(([title, found]) =>
    found.length === 0 ? [] : [`### ${title}\n\n${found.join("\n")}\n`],
  );
  const body = sections.length === 0 ? "No changes for users.\n" : sections.join("\n");
  return `## ${version} (${date})\n\n${body}`;
}

const HEADING = "# Changelog\n\nWritten by `npm run release` from the subjects of the commits.\n";

/** Returns the changelog with this entry on top. `changelog` is undefined before the first release. */
export function withEntry(changelog: string | undefined, entry: string): string {
  const text = changelog ?? HEADING;
  const at = text.indexOf("\n## ");
  return at < 0 ? `${text}\n${entry}` : `${text.slice(0, at)}\n${entry}${text.slice(at)}`;
}

/**
 * Returns why a version cannot follow another; undefined if it can. A release is larger than the last; the first one may
 * be the version that package.json already has.
 */
export function versionProblem(version: string, current: string, isFirst: boolean): string | undefined {
  const numbers = partsOf(version);
  if (numbers === undefined) return `${version} is no version: it must look like 1.2.3.`;
  const before = partsOf(current) ?? [0, 0, 0];
  const differing = numbers.findIndex((number, index) => number !== before[index]);
  if (differing < 0) return isFirst ? undefined : `${version} is released already.`;
  return (numbers[differing] ?? 0) > (before[differing] ?? 0) ? undefined : `${version} is older than ${current}.`;
}

function partsOf(version: string): number[] | undefined {
  return /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/.exec(version)?.slice(1).map(Number);
}
