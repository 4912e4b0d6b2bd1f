import { createHash } from "node:crypto";
import type { SpaceDocument } from "../../../src/core/space/documents.ts";
import { planSpace, type SpaceBatch } from "../../../src/core/space/plan.ts";
import { Findings, type Item, type SpaceReport } from "../../../src/core/space/report.ts";
import type { Texts } from "../../../src/core/space/version-text.ts";
import { type Installation, plainDocument } from "../../support/space-dump.ts";

export const NOW = new Date("2025-06-15T10:00:00.000Z");

export interface Planned {
  report: SpaceReport;
  batches: SpaceBatch[];
}

/** Plans an installation. Default texts: none. */
export async function plan(installation: Installation, texts: Partial<Texts> = {}): Promise<Planned> {
  const findings = new Findings();
  const read = async function* (collection: string) {
    for (const document of installation[collection] ?? []) yield plainDocument(document) as SpaceDocument;
  };
  const batches: SpaceBatch[] = [];
  const deriveId = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 24);
  const all: Texts = { file: () => undefined, fetched: () => undefined, ...texts };
  for await (const batch of planSpace(read, { findings, deriveId, texts: all, now: NOW })) batches.push(batch);
  return { report: findings.report(), batches };
}

/** Rows of one kind, over all batches. */
export function rowsOf<Kind extends SpaceBatch["kind"]>(
  { batches }: Planned,
  kind: Kind,
): Extract<SpaceBatch, { kind: Kind }>["rows"][number][] {
  return batches.flatMap((batch) => (batch.kind === kind ? (batch.rows as never[]) : []));
}

/** An item in one line, without its id. */
export const shown = ({ code, kind, name, detail }: Item): string => `${code} ${kind} ${name}: ${detail}`;
