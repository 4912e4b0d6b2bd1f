import { type Base, type PermissionRule, PERMISSION_RULES } from "./permissions.ts";

interface CompiledRule {
  rule: PermissionRule;
  /** True if the pattern ends in `/**`. */
  isOpen: boolean;
  /** Required segments; `*` matches any. */
  fixed: readonly string[];
}

/** Indexes the rules of one base by method and first segment, in table order. Every request looks up one rule. */
function compiled(base: Base): ReadonlyMap<string, ReadonlyMap<string, readonly CompiledRule[]>> {
  const rules = new Map<string, Map<string, CompiledRule[]>>();
  for (const rule of PERMISSION_RULES.filter((each) => (each.base ?? "/api/v1") === base)) {
    const parts = rule.pattern.split("/").filter(Boolean);
    const isOpen = parts.at(-1) === "**";
    const fixed = isOpen ? parts.slice(0, -1) : parts;
    for (const method of rule.methods) {
      const bySegment = rules.get(method) ?? new Map<string, CompiledRule[]>();
      rules.set(method, bySegment);
      const first = fixed[0] ?? "";
      bySegment.set(first, [...(bySegment.get(first) ?? []), { rule, isOpen, fixed }]);
    }
  }
  return rules;
}

const COMPILED = { "/api/v1": compiled("/api/v1"), "/": compiled("/") };

/**
 * Finds the rule for a method and path; undefined when there is none. `path` is relative to `base`; HEAD counts as GET.
 */
export function findRule(method: string, path: string, base: Base = "/api/v1"): PermissionRule | undefined {
  const start = segmentAfter(path, 0);
  const rules = COMPILED[base].get(method === "HEAD" ? "GET" : method)?.get(path.slice(start, endOf(path, start)));
  for (const each of rules ?? []) if (fits(each, path)) return each.rule;
  return undefined;
}

/*
 * Matches paths in place: splitting them into segments would cost more than all rules. Repeated slashes count as one;
 * trailing slashes are ignored.
 */

function segmentAfter(path: string, position: number): number {
  let at = position;
  while (path[at] === "/") at += 1;
  return at;
}

function endOf(path: string, start: number): number {
  const slash = path.indexOf("/", start);
  return slash < 0 ? path.length : slash;
}

function fits({ fixed, isOpen }: CompiledRule, path: string): boolean {
  let start = segmentAfter(path, 0);
  for (const segment of fixed) {
    const end = endOf(path, start);
    const isSame = end - start === segment.length && path.startsWith(segment, start);
    if (end === start || (segment !== "*" && !isSame)) return false;
    start = segmentAfter(path, end);
  }
  return isOpen || start === path.length;
}
