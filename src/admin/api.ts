import type { ClosedGate } from "./answers.ts";
import { readable } from "./format.ts";
import { texts } from "./texts.ts";

/** Base URL of the HTTP interface. It is relative to the console, so the console works below any sub-path. */
export const API_URL = new URL("../api/v1", document.baseURI).href;

/** One problem of an uploaded pricing, with its position. */
export interface Problem {
  message: string;
  path: string;
  line: number;
  column: number;
}

/** Error response with the server's own message. `status` is 0 when the server could not be reached. */
export class Refused extends Error {
  readonly status: number;
  readonly problems: readonly Problem[];
  /** Result of the gate rules, when a closed gate caused the error. */
  readonly gate: ClosedGate | undefined;

  constructor(status: number, message: string, more: { problems?: readonly Problem[]; gate?: ClosedGate } = {}) {
    super(readable(message));
    this.status = status;
    this.problems = (more.problems ?? []).map((problem) => ({ ...problem, message: readable(problem.message) }));
    this.gate = more.gate;
  }
}

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export interface Call {
  /** Key of an organization, for calls that members have no route for. Without one, the session's cookie counts. */
  key?: string | undefined;
  query?: Record<string, string | number | boolean | undefined>;
  /** Objects are sent as JSON, FormData as a multipart form. */
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** Callback for a session that the server ended; the session sets it. */
export const onSessionEnded: { current: (() => void) | undefined } = { current: undefined };

/** Refusals of a call whose session ended, or whose cookie is gone. Wrong passwords have another one. */
const SESSION_ENDED = /^(The session has ended|API Key not found)/;

/** Builds an API path and escapes its names: `` path`/services/${name}` ``. */
export function path(parts: TemplateStringsArray, ...names: readonly string[]): string {
  return String.raw({ raw: parts }, ...names.map((name) => encodeURIComponent(name)));
}

/** Returns the full URL of a call, also shown in code samples. */
export function addressOf(to: string, query: Call["query"] = {}): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") asked.set(name, String(value));
  }
  return `${API_URL}${to}${asked.size === 0 ? "" : `?${asked.toString()}`}`;
}

/**
 * Sends a request and returns the successful response.
 * @throws Refused when the server answered with an error or could not be reached.
 */
async function send(method: Method, to: string, options: Call): Promise<Response> {
  const headers = new Headers(options.headers);
  if (options.key !== undefined) headers.set("x-api-key", options.key);
  const init: RequestInit = { method, headers, signal: options.signal ?? null };
  if (options.body instanceof FormData) init.body = options.body;
  else if (options.body !== undefined) {
    headers.set("content-type", "application/json");
    init.body = JSON.stringify(options.body);
  }
  const lost = () => new Refused(0, method === "GET" ? texts.errors.unreachable : texts.errors.lost);
  const response = await fetch(addressOf(to, options.query), init).catch((error: unknown) => {
    if (options.signal?.aborted === true) throw error;
    throw lost();
  });
  // A page of a proxy, such as its sign-in: the service answers no call with HTML.
  if (response.ok && response.headers.get("content-type")?.startsWith("text/html") === true) throw lost();
  if (!response.ok) throw refusalOf(response, parsed(await response.text()));
  return response;
}

/**
 * Sends a request and returns the parsed body with the response headers.
 * @throws Refused when the server answered with an error or could not be reached, and for a change that waits for a second
 * person.
 */
export async function callWithHeaders<T>(
  method: Method,
  to: string,
  options: Call = {},
): Promise<{ body: T; headers: Headers }> {
  const response = await send(method, to, options);
  const body = parsed(await response.text());
  if (response.status === 202) refuseHeld(body);
  return { body: shaped<T>(body), headers: response.headers };
}

/**
 * Reads a text, exactly as the server sends it.
 * @throws Refused when the server answered with an error or could not be reached.
 */
export async function callForText(to: string, options: Call = {}): Promise<string> {
  return (await send("GET", to, options)).text();
}

/**
 * Sends a request for NDJSON and passes each parsed line to `onLine` as it arrives.
 * @throws Refused when the server answered with an error or could not be reached. Errors of `onLine` propagate.
 */
export async function callForLines<T>(
  method: Method,
  to: string,
  options: Call,
  onLine: (line: T) => void,
): Promise<void> {
  const headers = { ...options.headers, accept: "application/x-ndjson" };
  const { body } = await send(method, to, { ...options, headers });
  if (body !== null) for await (const line of partsOf(body, "\n")) onLine(shaped<T>(JSON.parse(line)));
}

/** Splits a text stream at each `end`. An unterminated last part is dropped. */
export async function* partsOf(body: ReadableStream<Uint8Array>, end: string): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split(end);
    text = parts.pop() ?? "";
    yield* parts;
  }
}

/**
 * Sends a request and returns the parsed body.
 * @throws Refused when the server answered with an error or could not be reached.
 */
export async function call<T = undefined>(method: Method, to: string, options: Call = {}): Promise<T> {
  return (await callWithHeaders<T>(method, to, options)).body;
}

function parsed(text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @throws Refused for a change that waits for a second person: no caller must take it for made. */
function refuseHeld(body: unknown): void {
  const { changeRequest } = shaped<{ changeRequest?: { summary: string } }>(body);
  if (changeRequest !== undefined) throw new Refused(202, texts.approvals.held(changeRequest.summary));
}

function refusalOf(response: Response, body: unknown): Refused {
  const { error, ...more } = shaped<{ error?: string; problems?: Problem[]; gate?: ClosedGate }>(
    typeof body === "object" ? body : {},
  );
  if (response.status === 401 && SESSION_ENDED.test(error ?? "")) {
    onSessionEnded.current?.();
    return new Refused(401, texts.errors.sessionEnded);
  }
  return new Refused(response.status, error ?? texts.errors.status(response.status), more);
}

/** Casts without validating: the types are those of src/wire, and the tests hold every answer of the server against it. */
function shaped<T>(value: unknown): T {
  return value as T;
}
