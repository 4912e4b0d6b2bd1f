import { z } from "zod";
import { EXAMPLE, id, moment } from "./common.ts";
import type { Operation } from "./operation.ts";
import { account, credentials } from "./users.ts";

const via = z.enum(["password", "oidc"]).describe("`oidc`: through the provider of single sign-on");

export const session = z
  .strictObject({
    id,
    current: z.boolean().describe("True for the session of this request"),
    createdAt: moment,
    lastUsedAt: moment.describe("Accurate to about a minute"),
    address: z.string().describe("Network address at sign-in; empty if unknown"),
    agent: z.string().describe("User-Agent at sign-in; empty if unknown"),
    via,
  })
  .meta({ id: "Session" });
export const sessionStarted = z.strictObject({ user: account }).meta({ id: "SessionStarted" });

/** Sessions of people. Source: contract sign-in §1. */
export const sessionOperations: readonly Operation[] = [
  {
    id: "startSession",
    group: "Users",
    method: "POST",
    path: "/sessions",
    summary: "Sign in with a cookie",
    description:
      "Begins a session for a page of this server and sets its cookie, which scripts cannot read. Programs send a key instead. Ten wrong passwords per minute, name and address are answered with 429.",
    body: { schema: credentials, example: { username: "margaret", password: "correct-horse-battery" } },
    answers: {
      201: {
        schema: sessionStarted,
        example: { user: { id: EXAMPLE.userObjectId, username: "margaret", role: "USER" } },
      },
    },
    errors: { 401: "INVALID DATA: Invalid credentials", 403: "This request comes from another page" },
  },
  {
    id: "listSessions",
    group: "Users",
    method: "GET",
    path: "/sessions",
    summary: "List your sessions",
    description: "Lists the caller's sessions that still admit, the newest first; at most 50.",
    answers: {
      200: {
        schema: z.array(session),
        example: [
          {
            id: EXAMPLE.sessionId,
            current: true,
            createdAt: EXAMPLE.createdAt,
            lastUsedAt: EXAMPLE.updatedAt,
            address: "192.0.2.7",
            agent: "Mozilla/5.0",
            via: "password",
          },
        ],
      },
    },
  },
  {
    id: "endOtherSessions",
    group: "Users",
    method: "DELETE",
    path: "/sessions",
    summary: "End all other sessions",
    description: "Ends every session of the caller but the one of the request. With a key, ends them all.",
    answers: { 204: null },
  },
  {
    id: "endCurrentSession",
    group: "Users",
    method: "DELETE",
    path: "/sessions/current",
    summary: "Sign out",
    description: "Ends the session of the request and removes its cookie. With a key, ends nothing.",
    answers: { 204: null },
  },
  {
    id: "endSession",
    group: "Users",
    method: "DELETE",
    path: "/sessions/{sessionId}",
    summary: "End a session",
    description: "Ends one session of the caller. Its cookie is refused within a second, in every process.",
    answers: { 204: null },
    errors: { 404: `Session ${EXAMPLE.sessionId} not found` },
  },
];
