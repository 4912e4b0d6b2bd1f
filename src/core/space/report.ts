import { unstorablePath } from "../storable.ts";
import { type Collection, eachUnknownField, idOf, type SpaceDocument } from "./documents.ts";

/** Codes of changes that the import made. Source: contract files-and-migration §5. */
export type ChangedCode =
  | "seeded-admin-removed"
  | "owner-missing"
  | "role-unknown"
  | "second-default"
  | "text-written"
  | "text-differs"
  | "address-taken"
  | "level-created"
  | "level-invalid"
  | "reset-set"
  | "reset-dropped"
  | "billing-repaired"
  | "subscription-invalid"
  | "password-unusable";

/** Codes of reasons for leaving something behind. Source: contract files-and-migration §5 and its Clarifications. */
export type LeftCode =
  | "document-invalid"
  | "duplicate-name"
  | "key-invalid"
  | "key-duplicate"
  | "member-unknown"
  | "member-duplicate"
  | "organization-missing"
  | "version-missing"
  | "version-not-fetched"
  | "version-unreadable"
  | "version-duplicate"
  | "service-empty"
  | "contracted-service-missing"
  | "contracted-service-disabled"
  | "contracted-version-missing"
  | "add-on-unknown"
  | "level-untracked"
  | "field-unknown"
  | "pricing-unreferenced";

export type ItemKind =
  | "user"
  | "organization"
  | "key"
  | "member"
  | "service"
  | "version"
  | "pricing"
  | "contract"
  | "level"
  | "history"
  | "day"
  | "field";

/** One entry of the report. `id` is that of the document; `name` is what people call the item. */
export interface Item<Code extends string = ChangedCode | LeftCode> {
  code: Code;
  kind: ItemKind;
  id: string;
  name: string;
  detail: string;
}

const COUNTED = [
  "users",
  "organizations",
  "keys",
  "members",
  "services",
  "versions",
  "contracts",
  "levels",
  "history",
  "days",
] as const;

export type Carried = Record<(typeof COUNTED)[number], number>;

/** Result of an import. `complete`: nothing was left behind. */
export interface SpaceReport {
  carried: Carried;
  changed: Item<ChangedCode>[];
  left: Item<LeftCode>[];
  complete: boolean;
}

/** Identifies the document or part that an item is about. */
export type Subject = Pick<Item, "kind" | "id" | "name">;

/** Collects the report while the plan is made. */
export class Findings {
  readonly carried = Object.fromEntries(COUNTED.map((name) => [name, 0])) as Carried;
  private readonly changed: Item<ChangedCode>[] = [];
  private readonly left: Item<LeftCode>[] = [];
  private readonly unknownFields = new Map<string, number>();

  change(code: ChangedCode, { kind, id, name }: Subject, detail: string): void {
    this.changed.push({ code, kind, id, name, detail });
  }

  leave(code: LeftCode, { kind, id, name }: Subject, detail: string): void {
    this.left.push({ code, kind, id, name, detail });
  }

  /** Counts the unknown fields of a document, and returns its id unless it cannot be carried at all. */
  open(collection: Collection, kind: ItemKind, document: SpaceDocument, name: string): string | undefined {
    const unknown = new Set<string>();
    eachUnknownField(collection, document, (path) => unknown.add(path));
    for (const path of unknown) this.unknownFields.set(path, (this.unknownFields.get(path) ?? 0) + 1);
    const id = idOf(document);
    const problem =
      id === undefined
        ? "It has no id of 24 hex digits"
        : unstorablePath(document) !== undefined
          ? "A text contains a character that cannot be stored"
          : undefined;
    if (problem === undefined) return id;
    this.leave("document-invalid", { kind, id: id ?? "", name }, problem);
    return undefined;
  }

  report(): SpaceReport {
    const fields = [...this.unknownFields].map(([path, count]): Item<LeftCode> => {
      const detail = `In ${count} ${count === 1 ? "document" : "documents"}`;
      return { code: "field-unknown", kind: "field", id: "", name: path, detail };
    });
    const left = [...this.left, ...fields];
    return { carried: { ...this.carried }, changed: [...this.changed], left, complete: left.length === 0 };
  }
}

/** Items of one code that a report in words lists; the others are counted. */
const MAX_LISTED = 20;

/** Formats a report for people. */
export function reportInWords(report: SpaceReport): string {
  const counts = COUNTED.map((name) => `${report.carried[name]} ${name === "history" ? "history entries" : name}`);
  return [
    `Carried: ${counts.join(", ")}.`,
    ...listed("Changed", report.changed),
    ...listed("Left", report.left),
    report.complete ? "Nothing was left behind." : "",
  ]
    .filter((line) => line !== "")
    .map((line) => `${line}\n`)
    .join("");
}

function listed(title: string, items: readonly Item[]): string[] {
  if (items.length === 0) return [];
  const byCode = new Map<string, Item[]>();
  for (const item of items) byCode.set(item.code, [...(byCode.get(item.code) ?? []), item].slice(0, MAX_LISTED));
  const lines = [`${title}: ${items.length}`];
  for (const [code, first] of byCode) {
    const count = items.reduce((sum, item) => sum + (item.code === code ? 1 : 0), 0);
    for (const { kind, id, name, detail } of first) {
      lines.push(`  ${code}  ${kind} ${name}${id === "" ? "" : ` (${id})`}: ${detail}`);
    }
    if (count > first.length) lines.push(`  ${code}  and ${count - first.length} more: --report lists all of them`);
  }
  return lines;
}
