import type { Handler } from "hono";
import { chain } from "../../core/maybe-promise.ts";
import { jwksOf } from "../../core/token-keys.ts";
import { contextOf } from "../../operations/context.ts";
import { currentTokenKeys } from "../../operations/token-keys.ts";
import type { AppEnv } from "../context.ts";
import { replyConditionally } from "../reply.ts";

/** Where verifiers of pricing tokens find the public keys, outside of /api/v1. Source: RFC 8615. */
export const JWKS_PATH = "/.well-known/jwks.json";

/** Answers with the published keys, without looking at the caller's key. Source: contract tokens-and-leases §2.3. */
export const tokenKeySet: Handler<AppEnv> = (c) => {
  const resources = c.get("resources");
  const ctx = contextOf(resources, { kind: "anonymous" }, c.get("request").id);
  return chain(currentTokenKeys(ctx), (keys) =>
    replyConditionally(c, JSON.stringify(jwksOf(keys, resources.now())), { "Cache-Control": "public, max-age=300" }),
  );
};
