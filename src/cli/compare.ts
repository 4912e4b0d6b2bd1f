import { InvalidArgumentError } from "commander";
import { decodePricingToken } from "../client/pricing-token.ts";
import { versionKey } from "../core/pricing/names.ts";
import { isRecord, itemsOf, type SpaceDocument, textOf } from "../core/space/documents.ts";
import type { Item, SpaceReport } from "../core/space/report.ts";
import { byName, compareAnswers, type Difference } from "../core/space/compare.ts";
import type { Compared, ComparedCall, ComparedFacts } from "../core/space/explanations.ts";
import { type CliCommand, CliFailure, EXIT, type Io } from "./command.ts";
import { type Ask, createAsk, limitConcurrency } from "./compared-server.ts";
import { readRequired } from "./pricing-file.ts";

interface Options {
  old: string;
  new: string;
  key?: string[];
  sample: number;
  report?: string;
  json?: true;
}

/** Requests in flight, over both servers. */
const CONCURRENCY = 4;
const PAGE = 100;
const SERVICES_PAGE = 1000;
const USUAL_SAMPLE = 100;

/** `faregate compare` asks SPACE and this server the same questions, and explains what differs. */
export const compare: CliCommand = {
  name: "compare",
  summary: "Ask SPACE and Faregate the same questions after a move, and explain each difference.",
  declare(command) {
    command
      .requiredOption("--old <url>", "address of SPACE")
      .requiredOption("--new <url>", "address of Faregate")
      .option("--key <key>", "an organization's key that both know; repeatable; else FAREGATE_API_KEY", collected)
      .option("--sample <n>", "contracts per key; 0 for all", wholeNumber, USUAL_SAMPLE)
      .option("--report <file>", "the JSON report of import-space, which explains what was left")
      .option("--json", "print every difference as JSON");
  },
  async run(given, io) {
    const options = given.opts<Options>();
    const keys = (options.key ?? [io.env["FAREGATE_API_KEY"] ?? ""]).filter((key) => key !== "");
    if (keys.length === 0) throw new CliFailure("A key is needed: --key or FAREGATE_API_KEY.");
    const reported = options.report === undefined ? [] : await readReport(options.report, io);
    const found: Difference[] = [];
    let users = 0;
    for (const each of keys) {
      const compared = await compareKey({ options, key: each, io, reported });
      found.push(...compared.differences);
      users += compared.users;
    }
    const unexplained = found.filter(({ explanation }) => explanation === null);
    const counts = countsOf(found);
    if (options.json === true) {
      io.out(`${JSON.stringify({ users, explained: counts, unexplained, differences: found }, null, 2)}\n`);
    } else io.out(inWords(users, counts, unexplained));
    return unexplained.length === 0 ? EXIT.done : EXIT.no;
  },
};

const collected = (key: string, others: string[] | undefined): string[] => [...(others ?? []), key];

function wholeNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) throw new InvalidArgumentError("It must be a whole number.");
  return value;
}

async function readReport(path: string, io: Io): Promise<Item[]> {
  const text = await readRequired(path, io);
  try {
    const { changed, left } = JSON.parse(text) as SpaceReport;
    return [...changed, ...left];
  } catch (error) {
    throw new CliFailure(`${path} is no report of import-space: ${String(error)}`, { cause: error });
  }
}

interface Run {
  options: Options;
  key: string;
  io: Io;
  reported: readonly Item[];
}

async function compareKey(run: Run): Promise<{ differences: Difference[]; users: number }> {
  const limit = limitConcurrency(CONCURRENCY);
  const old = createAsk(run, run.options.old, limit);
  const now = createAsk(run, run.options.new, limit);
  const [oldServices, newServices] = await Promise.all([servicesOf(old), servicesOf(now)]);
  for (const [answer, url] of [
    [oldServices, run.options.old],
    [newServices, run.options.new],
  ] as const) {
    if (answer.status !== 200) throw new CliFailure(`${url} refuses the key: ${sentenceOf(answer)}`);
  }
  const users = await sampleOf(now, run.options);
  const names = itemsOf(newServices.body).flatMap((each) => (isRecord(each) ? (textOf(each["name"]) ?? []) : []));
  const facts = new Facts(run, names);
  const differences = compareAnswers("services", named(oldServices), named(newServices), facts.of(""));
  for (const name of names) differences.push(...(await comparePricings(old, now, name, facts)));
  const each = await inPairs(users, (user) => compareUser(old, now, user, facts));
  return { differences: [...differences, ...each.flat()], users: users.length };
}

/** Facts that explain differences, gathered while a key's answers come in. */
class Facts {
  private readonly run: Run;
  private readonly names: ReadonlySet<string>;
  private readonly pricings = new Map<string, SpaceDocument>();

  constructor(run: Run, names: readonly string[]) {
    this.run = run;
    this.names = new Set(names.map((name) => name.toLowerCase()));
  }

  keep(service: string, pricing: unknown): void {
    if (!isRecord(pricing)) return;
    this.pricings.set(`${service.toLowerCase()} ${versionKey(String(pricing["version"]))}`, pricing);
  }

  of(user: string, known: Partial<ComparedFacts> = {}, service = ""): ComparedFacts {
    const pricing = (name: string, version: string) => this.pricings.get(`${name} ${versionKey(version)}`);
    return {
      user,
      service,
      now: this.run.io.now(),
      old: {},
      new: {},
      pricing,
      isFromUrl: (version) => pricing(service.toLowerCase(), version)?.["url"] !== undefined,
      hasService: (name) => this.names.has(name.toLowerCase()),
      details: { old: undefined, new: undefined },
      reported: this.run.reported,
      ...known,
    };
  }
}

async function comparePricings(old: Ask, now: Ask, name: string, facts: Facts): Promise<Difference[]> {
  const found: Difference[] = [];
  for (const state of ["active", "archived"]) {
    const path = `/services/${encodeURIComponent(name)}/pricings?pricingStatus=${state}`;
    const [before, after] = await both(old, now, "GET", path);
    for (const pricing of itemsOf(after.body)) facts.keep(name, pricing);
    const versions = (answer: Compared) => ({
      status: answer.status,
      body: Array.isArray(answer.body) ? byName(answer.body, (item) => String(item["version"])) : answer.body,
    });
    found.push(...compareAnswers("pricings", versions(before), versions(after), facts.of("", {}, name)));
  }
  return found;
}

async function compareUser(old: Ask, now: Ask, user: string, facts: Facts): Promise<Difference[]> {
  const id = encodeURIComponent(user);
  const [oldContract, newContract] = await both(old, now, "GET", `/contracts/${id}`);
  const calls: readonly [ComparedCall, string][] = [
    ["features", `/features/${id}`],
    ["details", `/features/${id}?details=true`],
    ["server", `/features/${id}?details=true&server=true`],
    ["token", `/features/${id}/pricing-token`],
  ];
  const answers: [ComparedCall, Compared, Compared][] = [["contract", oldContract, newContract]];
  for (const [call, path] of calls) answers.push([call, ...(await both(old, now, "POST", path))]);
  const details = answers.find(([call]) => call === "details");
  const known = facts.of(user, {
    old: isRecord(oldContract.body) ? oldContract.body : {},
    new: isRecord(newContract.body) ? newContract.body : {},
    details: { old: details?.[1].body, new: details?.[2].body },
  });
  return answers.flatMap(([call, before, after]) =>
    call === "token"
      ? compareAnswers(call, claimsOf(before), claimsOf(after), known)
      : compareAnswers(call, before, after, known),
  );
}

/** Replaces a token by its claims. Signatures are not compared. An unreadable token is compared as it is. */
function claimsOf(answer: Compared): Compared {
  const token = isRecord(answer.body) ? answer.body["pricingToken"] : undefined;
  if (typeof token !== "string") return answer;
  try {
    return { status: answer.status, body: decodePricingToken(token) };
  } catch {
    return answer;
  }
}

const named = (answer: Compared): Compared => ({
  status: answer.status,
  body: byName(answer.body, (item) => String(item["name"])),
});

function both(old: Ask, now: Ask, method: "GET" | "POST", path: string): Promise<[Compared, Compared]> {
  return Promise.all([old(method, path), now(method, path)]);
}

/** Works on two users at once, each of which asks both servers. */
async function inPairs<Result>(users: readonly string[], work: (user: string) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < users.length; at += 2) {
    results.push(...(await Promise.all(users.slice(at, at + 2).map(work))));
  }
  return results;
}

/** Lists all services of a server: without a limit, both answer 20. An answer that is no list is returned as it is. */
async function servicesOf(ask: Ask): Promise<Compared> {
  const services: unknown[] = [];
  for (;;) {
    const page = await ask("GET", `/services?limit=${SERVICES_PAGE}&offset=${services.length}`);
    const found = itemsOf(page.body);
    if (page.status !== 200 || !Array.isArray(page.body)) return page;
    if (found.length === 0) return { ...page, body: services };
    services.push(...found);
  }
}

/** End users with the smallest SHA-256, in that order: the same ones in each run. */
async function sampleOf(ask: Ask, { sample, new: url }: Options): Promise<string[]> {
  const found: { user: string; hash: string }[] = [];
  // By id, because contracts that are created or deleted meanwhile would shift other pages.
  for (let after = ""; ;) {
    const page = await ask("GET", `/contracts?limit=${PAGE}&after=${after}`);
    if (page.status !== 200) throw new CliFailure(`${url} does not list contracts: ${sentenceOf(page)}`);
    const contracts = itemsOf(page.body);
    for (const contract of contracts) {
      const contact = isRecord(contract) ? contract["userContact"] : undefined;
      const user = isRecord(contact) ? textOf(contact["userId"]) : undefined;
      if (user !== undefined) found.push({ user, hash: await sha256(user) });
    }
    const last = contracts.at(-1);
    const id = isRecord(last) ? textOf(last["id"]) : undefined;
    // A short page is not the last one where PAGE_LIMIT is lower.
    if (id === undefined) break;
    after = id;
  }
  found.sort((one, other) => (one.hash < other.hash ? -1 : 1));
  return (sample === 0 ? found : found.slice(0, sample)).map(({ user }) => user);
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function sentenceOf({ status, body }: Compared): string {
  const error = isRecord(body) ? textOf(body["error"]) : undefined;
  return error ?? `it answers ${status}`;
}

function countsOf(found: readonly Difference[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { explanation } of found) if (explanation !== null) counts[explanation] = (counts[explanation] ?? 0) + 1;
  return counts;
}

function inWords(users: number, counts: Record<string, number>, unexplained: readonly Difference[]): string {
  const explained = Object.entries(counts).map(([code, count]) => `  ${code}: ${count}\n`);
  const lines = unexplained.map(({ user, call, path, old, new: now }) => {
    const subject = user === "" ? call : `${user} ${call}`;
    return `  ${subject} ${path}: ${JSON.stringify(old) ?? "absent"} in SPACE, ${JSON.stringify(now) ?? "absent"} here\n`;
  });
  const ends = unexplained.length === 0 ? "No difference is unexplained.\n" : `Unexplained: ${unexplained.length}\n`;
  const head = explained.length === 0 ? "" : `Explained:\n${explained.join("")}`;
  return `${users} users compared.\n${head}${ends}${lines.join("")}`;
}
