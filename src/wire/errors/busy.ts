import type { ErrorKind } from "./entry.ts";

export const tooLarge: ErrorKind = {
  title: "Too large",
  status: 413,
  meaning: "The body or a file exceeds its limit. Nothing was changed.",
  remedy: "Split the request, or shorten the file.",
  groups: [
    {
      remedy: "Shorten the pricing: a file has at most 2 MB, or what PRICING_LIMIT_KB of the server says.",
      sentences: ["File too large"],
    },
    {
      remedy: "Send less per request, such as a smaller batch of usage.",
      sentences: [
        "The request body is larger than {size}",
        "The form has more than {most} fields",
        "The body has more than {most} values",
      ],
    },
  ],
};

export const tooManyRequests: ErrorKind = {
  title: "Too many requests",
  status: 429,
  meaning: "A rate limit was reached. Nothing was changed.",
  remedy: "Wait as long as the header `Retry-After` says, then retry. Faregate's clients do.",
  groups: [
    {
      remedy: "Spread the calls, or ask the operator to raise the limit.",
      sentences: [
        "Too many requests. Please try again later",
        "Too many requests with this API key. Please try again later",
        "Too many test events. Please try again later",
        "Too many analyses of {whose} at a time: at most {most}. Try again in {seconds} seconds",
        "A replay of this organization is running. Try again in {seconds} seconds",
        "Too many event streams are open {where}. Please try again later",
      ],
    },
    {
      remedy: "Correct the key or the password first; another wrong one extends the wait.",
      sentences: [
        "Too many failed sign-in attempts. Please try again later",
        "Too many unknown API keys. Please try again later",
      ],
    },
    {
      remedy: "Send the request again, and keep the connection open until it is answered.",
      sentences: ["The connection was closed before the password was hashed"],
    },
  ],
};

export const unavailable: ErrorKind = {
  title: "Unavailable",
  status: 503,
  meaning:
    "The database is unreachable or overloaded, or another request is in the way. Nothing was changed, unless `details` says so.",
  remedy: "Retry after the header `Retry-After`, with the same Idempotency-Key.",
  groups: [
    {
      remedy: "Retry with back-off. Operators find the cause in the log, and with the command `doctor`.",
      sentences: [
        "The service is temporarily unavailable. Please try again",
        "The token key cannot be read. Please try again later",
      ],
    },
    {
      remedy: "Retry after a second: another request holds the contract, or is the same request.",
      sentences: [
        "The contract is locked by other requests. Please try again",
        "The first request with this Idempotency-Key is still in progress. Please try again",
      ],
    },
    {
      remedy:
        "Retry after ten seconds: operators move the organization to another instance, and reads go on meanwhile.",
      sentences: ["The organization is being moved. Please try again"],
    },
    {
      remedy: "Close streams that you no longer read, and reconnect with back-off.",
      sentences: ["Too many event streams are open. Please try again"],
    },
    {
      remedy: "Connect to a process on Node, Bun or Deno; Workers cannot hold the stream.",
      sentences: ["Changes cannot be followed here: connect to Node, Bun or Deno"],
    },
  ],
};

export const unexpected: ErrorKind = {
  title: "Unexpected",
  status: 500,
  meaning: "A defect of the server. Its log has the cause.",
  remedy:
    "Report it to the operator with the header `x-request-id`. A retry may succeed, and is safe with an Idempotency-Key.",
  groups: [{ remedy: "Search the log for the request id.", sentences: ["Internal server error"] }],
};
