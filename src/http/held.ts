import { requestApproval } from "../operations/approvals/requesting.ts";
import type { Context } from "../operations/context.ts";
import { ApprovalNeeded } from "../operations/policy/approval.ts";
import { apiPath } from "./authorize.ts";
import { type AppContext, context } from "./context.ts";
import { json } from "./reply.ts";

/**
 * Answers a change. One that needs a second person was rolled back after its last check: it is stored as a request, and
 * answered with 202.
 */
export async function answerOrHold(c: AppContext, run: (ctx: Context) => Promise<Response>): Promise<Response> {
  const ctx = context(c);
  try {
    return await run(ctx);
  } catch (error) {
    if (!(error instanceof ApprovalNeeded)) throw error;
    // Routes of changes have no other method.
    const method = c.req.method as "PUT" | "POST" | "DELETE";
    const route = { method, path: apiPath(c.req.path) ?? c.req.path };
    return json(c, { changeRequest: await requestApproval(ctx, error.proposal, route) }, 202);
  }
}
