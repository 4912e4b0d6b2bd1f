import { Hono } from "hono";
import { takeSnapshot } from "../../operations/evaluation/snapshot.ts";
import { snapshotRequest } from "../../wire/snapshot.ts";
import { bodyOf } from "../body.ts";
import { type AppEnv, context } from "../context.ts";
import { statusOf } from "../errors.ts";
import { replyJson } from "../reply.ts";
import { spenderIn } from "./budgets.ts";

export const snapshotRoutes = new Hono<AppEnv>().post("/", async (c) => {
  const { users, knownPricings, knownGrants } = bodyOf(c, snapshotRequest, "unknownFieldsLast");
  const spending = users.map(({ spender, ...user }) => ({
    ...user,
    spender: spender == null ? [] : spenderIn(spender),
  }));
  const input = { users: spending, knownPricings: knownPricings ?? [], knownGrants: knownGrants ?? [] };
  const text = await takeSnapshot(context(c), input, (failure) => ({
    status: statusOf(failure),
    error: failure.message,
  }));
  return replyJson(c, text, 200);
});
