import { Hono } from "hono";
import { CONTRACT_GROUPINGS, ORGANIZATION_GROUPINGS, type UsageGrouping } from "../../core/usage-range.ts";
import { Failure } from "../../operations/errors.ts";
import {
  readContractUsage,
  readOrganizationUsage,
  streamMovements,
  type UsageQuery,
  type UsageReport,
  type UsageRow,
} from "../../operations/reports/usage-history.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { csvLine } from "../csv.ts";
import { entryIdOf, instantOf, organizationOf, queryParameter, scope } from "../params.ts";
import { json, reply } from "../reply.ts";
import { replyChunks } from "../streamed-list.ts";

const BUCKET_FIELDS = ["at", "service", "limit", "counted", "cleared", "late"];
/** Fields of the rows, in the order of the columns of a file. */
const FIELDS: Readonly<Record<UsageGrouping, readonly string[]>> = {
  hour: BUCKET_FIELDS,
  day: BUCKET_FIELDS,
  month: BUCKET_FIELDS,
  feature: ["service", "limit", "featureId", "counted", "late"],
  user: ["service", "limit", "userId", "counted", "late"],
  spender: ["service", "limit", "spender", "counted", "late"],
  unit: ["service", "limit", "unit", "featureId", "units", "counted", "late"],
  block: ["service", "limit", "blockId", "userId", "origin", "drawn"],
  movement: ["id", "at", "recordedAt", "service", "limit", "kind", "amount", "featureId", "operation"],
};

const FIELDS_OF_ALL = { ...FIELDS, spender: ["service", "limit", "userId", "spender", "counted", "late"] };

const CSV = "text/csv";
const LINES = "application/x-ndjson";
const TYPES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [CSV]: { "Content-Type": "text/csv; charset=utf-8", "Content-Disposition": 'attachment; filename="usage.csv"' },
  [LINES]: { "Content-Type": LINES },
};

/** Returns the first media type of the Accept header that usage is available in; undefined for JSON. */
function fileTypeOf(c: AppContext): typeof CSV | typeof LINES | undefined {
  const named = (c.req.header("accept") ?? "").split(",").map((type) => type.split(";")[0]?.trim().toLowerCase());
  const first = named.find((type) => type === CSV || type === LINES || type === "application/json");
  return first === CSV || first === LINES ? first : undefined;
}

function queryOf(c: AppContext, groupings: readonly UsageGrouping[]): UsageQuery {
  const named = queryParameter(c, "by") ?? "day";
  const by = groupings.find((each) => each === named);
  if (by === undefined) throw new Failure("invalid", `INVALID DATA: by must be one of ${groupings.join(", ")}`);
  return {
    by,
    from: instantOf(c, "from"),
    to: instantOf(c, "to"),
    top: topOf(c),
    depth: by === "spender" ? depthOf(c) : undefined,
    before: by === "movement" ? entryIdOf(c) : undefined,
    service: queryParameter(c, "service"),
    limit: queryParameter(c, "limit"),
  };
}

function depthOf(c: AppContext): number {
  const given = queryParameter(c, "depth") ?? "1";
  if (/^[1-4]$/.test(given)) return Number(given);
  throw new Failure("invalid", "INVALID DATA: depth must be a whole number from 1 to 4");
}

function topOf(c: AppContext): number | undefined {
  const given = queryParameter(c, "top");
  if (given === undefined) return undefined;
  if (/^\d{1,4}$/.test(given) && Number(given) >= 1 && Number(given) <= 1000) return Number(given);
  throw new Failure("invalid", "INVALID DATA: top must be a whole number from 1 to 1000");
}

/** Formats rows as a file: a header line and CSV, or one JSON object per line. */
function linesOf(type: typeof CSV | typeof LINES, fields: readonly string[], rows: readonly UsageRow[]): string {
  if (type === LINES) return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  return rows.map((row) => csvLine(fields.map((field) => (row as unknown as Record<string, unknown>)[field]))).join("");
}

const headOf = (type: typeof CSV | typeof LINES, fields: readonly string[]) => (type === CSV ? csvLine(fields) : "");

function answer(c: AppContext, report: UsageReport, allFields = FIELDS): Response {
  const fields = allFields[report.by];
  const type = fileTypeOf(c);
  if (type === undefined) return json(c, report);
  return reply(c, headOf(type, fields) + linesOf(type, fields, report.data), 200, TYPES[type]);
}

async function* chunksOf(type: typeof CSV | typeof LINES, pages: AsyncIterable<UsageRow[]>): AsyncIterable<string> {
  const head = headOf(type, FIELDS.movement);
  if (head !== "") yield head;
  for await (const page of pages) yield linesOf(type, FIELDS.movement, page);
}

/** Usage of one contract. */
export const contractUsageRoutes = new Hono<AppEnv>().get("/:userId/usage", async (c) => {
  const query = queryOf(c, CONTRACT_GROUPINGS);
  const address = { organizationId: scope(c), userId: c.req.param("userId") };
  const type = fileTypeOf(c);
  if (type === undefined || query.by !== "movement" || query.top !== undefined) {
    return answer(c, await readContractUsage(context(c), address, query));
  }
  const pages = await streamMovements(context(c), address, query);
  return replyChunks(c, chunksOf(type, pages), TYPES[type] ?? {});
});

/** Usage of all contracts of an organization. */
export const organizationUsageRoutes = new Hono<AppEnv>().get("/", async (c) => {
  const organizationId = organizationOf(c);
  const report = await readOrganizationUsage(context(c), organizationId, queryOf(c, ORGANIZATION_GROUPINGS));
  return answer(c, report, FIELDS_OF_ALL);
});
