import { type MaybePromise, chain } from "../core/maybe-promise.ts";
import type { Context } from "../operations/context.ts";
import { Failure, jsonText } from "../operations/errors.ts";
import { doOnce } from "../operations/idempotency.ts";
import { context, type AppContext } from "./context.ts";
import { bodyText, type JsonText, reply, replyJson } from "./reply.ts";
import { scope } from "./params.ts";

const MAX_KEY_LENGTH = 255;

/** Answer of a route: a JSON value, or no body. */
interface Answer {
  status: 200 | 201 | 204;
  value?: unknown;
}

/**
 * Runs `work` and answers with its result. With an `Idempotency-Key` header, `work` runs once: a retry with the same
 * key, method, path, query and body within 24 hours gets the first answer and `Idempotent-Replayed: true`. An answer
 * with a `secret` is encrypted until then.
 */
export function answerOnce(
  c: AppContext,
  work: (ctx: Context) => MaybePromise<Answer>,
  content?: "secret",
): MaybePromise<Response> {
  const key = c.req.header("idempotency-key")?.trim();
  if (key !== undefined) return answerByKey(c, key, work, content === "secret");
  return chain(work(context(c)), ({ status, value }) =>
    respond(c, status, value === undefined ? null : bodyText(value)),
  );
}

async function answerByKey(
  c: AppContext,
  key: string,
  work: (ctx: Context) => MaybePromise<Answer>,
  isSecret: boolean,
): Promise<Response> {
  if (key === "" || key.length > MAX_KEY_LENGTH) {
    throw new Failure("invalid", `INVALID DATA: The Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters`);
  }
  const answer = await doOnce(
    context(c),
    { key, fingerprint: await fingerprintOf(c), organizationId: scope(c), isSecret },
    async (ctx) => {
      const { status, value } = await work(ctx);
      return { status, body: value === undefined ? null : JSON.stringify(value) };
    },
  );
  if (answer.replayed) c.get("request").headers["Idempotent-Replayed"] = "true";
  return respond(c, answer.status, answer.body);
}

function respond(c: AppContext, status: Answer["status"], body: JsonText | null): Response {
  if (status === 204) return reply(c, null, 204);
  return replyJson(c, body ?? "null", status);
}

/** Hashes method, path, query and body with SHA-256. The caller is not part of it: keys are stored per organization. */
async function fingerprintOf(c: AppContext): Promise<string> {
  const { search } = new URL(c.req.url);
  const text = jsonText([c.req.method, c.req.path, search, c.get("body")]);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
