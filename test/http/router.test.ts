import type { Result } from "hono/router";
import { TrieRouter } from "hono/router/trie-router";
import { describe, expect, it } from "vitest";
import { API_ENDINGS, createApp } from "../../src/http/app.ts";
import { RegExpOrTrieRouter } from "../../src/http/router.ts";

const { routes } = createApp({
  open: () => {
    throw new Error("nothing is asked");
  },
  settings: { allowedOrigins: [], baseUrlPath: "" },
  readConsole: () => Promise.resolve(undefined),
});
const router = new RegExpOrTrieRouter<number>(API_ENDINGS);
const trie = new TrieRouter<number>();
routes.forEach(({ method, path }, i) => {
  router.add(method, path, i);
  trie.add(method, path, i);
});

/** The handlers in their order, each with the parameters that it would be given. */
function found(result: Result<number>): [number, Record<string, string>][] {
  const [handlers, stash] = result;
  return handlers.map(([handler, params]) => [
    handler,
    Object.fromEntries(
      Object.entries(params).map(([name, value]) => [name, typeof value === "number" ? (stash?.[value] ?? "") : value]),
    ),
  ]);
}

/** Leaves out what is behind a route with an ending, which answers. */
function upToEnding(handlers: ReturnType<typeof found>): ReturnType<typeof found> {
  const at = handlers.findIndex(([i]) => API_ENDINGS.some((ending) => routes[i]?.path.endsWith(ending)));
  return at < 0 ? handlers : handlers.slice(0, at + 1);
}

const WORDS = ["ada", "me", "pricing-token", "lint", "billingPeriod", "start.js", "a%20b", "a:b", "usageLevels"];
const paths = [...new Set(routes.map(({ path }) => path))].flatMap((path) =>
  WORDS.map((word) => path.replace(/:\w+\??/g, word).replace("*", word)),
);

describe("finds the handlers that the trie finds, in its order and with its parameters", () => {
  it.each(["GET", "POST", "PUT", "DELETE", "PATCH"])("%s, of every route and beside it", (method) => {
    for (const path of paths) {
      for (const asked of [path, `${path}/more`, path.slice(0, -1) || "/"]) {
        const expected = upToEnding(found(trie.match(method, asked)));
        expect(found(router.match(method, asked)), asked).toEqual(expected);
      }
    }
  });

  it("knows all of them", () => {
    expect(routes.length).toBeGreaterThan(100);
    const token = found(router.match("POST", "/api/v1/features/ada/pricing-token")).at(-1);
    expect(routes[token?.[0] ?? -1]?.path).toBe("/api/v1/features/:userId/pricing-token");
    expect(found(router.match("POST", "/api/v1/features/ada/tasker-board")).at(-1)?.[1]).toEqual({
      userId: "ada",
      featureId: "tasker-board",
    });
  });
});
