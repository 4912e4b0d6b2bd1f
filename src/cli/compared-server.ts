import { serviceAddress } from "../client/address.ts";
import type { Compared } from "../core/space/explanations.ts";
import { isRecord } from "../core/space/documents.ts";
import { CliFailure, type Io } from "./command.ts";

/** Asks one server. @throws CliFailure when it cannot be reached, or stays too busy. */
export type Ask = (method: "GET" | "POST", path: string) => Promise<Compared>;

/** Statuses of a server that is too busy, or is restarted, or of a proxy without its server. They answer no question. */
const UNANSWERED: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);
/** Waits before each retry, unless the server names one. */
const WAITS_MS = [500, 1_000, 2_000, 4_000];
/** Longest wait that a server can name. */
const LONGEST_WAIT_MS = 60_000;
/** Time limit of one request. */
const TIMEOUT_MS = 60_000;

/** Attempt that brought no answer to the question. */
interface Unanswered {
  failure: CliFailure;
  /** Wait that the server asks for. */
  waitMs?: number;
}

/** Creates the function that asks one server, with retries: no question consumes anything. */
export function createAsk({ key, io }: { key: string; io: Io }, url: string, limit: Limit): Ask {
  const base = baseOf(url);
  // An address that has never answered is more likely to be wrong than busy.
  let hasAnswered = false;
  const attempt = async (method: "GET" | "POST", path: string): Promise<Compared | Unanswered> => {
    try {
      const headers = { "x-api-key": key, ...(method === "POST" ? { "content-type": "application/json" } : {}) };
      const answer = await io.fetch(`${base}${path}`, {
        method,
        headers,
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...(method === "POST" ? { body: "{}" } : {}),
      });
      const { status } = answer;
      const text = await answer.text();
      hasAnswered = true;
      if (!UNANSWERED.has(status)) return { status, body: bodyOf(text) };
      const failure = new CliFailure(`${url} keeps answering ${status} to ${method} ${path}. Compare again later.`);
      const seconds = answer.headers.get("retry-after") ?? "";
      return { failure, ...(/^\d+$/.test(seconds) ? { waitMs: Number(seconds) * 1_000 } : {}) };
    } catch (error) {
      return { failure: new CliFailure(`${url} cannot be reached: ${reasonOf(error)}`, { cause: error }) };
    }
  };
  return (method, path) =>
    limit(async () => {
      for (let attempts = 0; ; attempts += 1) {
        const outcome = await attempt(method, path);
        if (!("failure" in outcome)) return outcome;
        const usualMs = hasAnswered ? WAITS_MS[attempts] : undefined;
        if (usualMs === undefined) throw outcome.failure;
        const waitMs = Math.min(outcome.waitMs ?? usualMs, LONGEST_WAIT_MS);
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    });
}

/** Base of the HTTP interface. @throws CliFailure for a text that is no address. */
function baseOf(url: string): string {
  try {
    return serviceAddress(url).httpUrl;
  } catch {
    throw new CliFailure(`${url} is no address of a server: it must begin with http:// or https://`);
  }
}

/** Node itself says only "fetch failed". */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return isRecord(cause) && typeof cause["code"] === "string" ? cause["code"] : String(error);
}

function bodyOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

type Limit = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs at most `count` pieces of work at once, first come, first served. */
export function limitConcurrency(count: number): Limit {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (running === count) await new Promise<void>((done) => waiting.push(done));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
