import { z } from "zod";
import { NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";

export const localEvaluation = z
  .strictObject({
    evaluators: z.int().describe("Local evaluators that are connected, a second late"),
    leases: z.int().describe("Open leases"),
    held: z
      .array(
        z.strictObject({
          service: z.string(),
          limit: z.string(),
          leases: z.int().describe("Open leases of this limit"),
          amount: z.number().describe("Amount that they hold"),
        }),
      )
      .describe("What open leases hold, by limit"),
  })
  .meta({ id: "LocalEvaluation" });

/** Local evaluation under way in one organization. */
export const localEvaluationOperations: readonly Operation[] = [
  {
    id: "showLocalEvaluation",
    group: "Features",
    method: "GET",
    path: "/organizations/{organizationId}/local-evaluation",
    summary: "Show local evaluation under way",
    description:
      "Returns how many evaluators of `faregate/local` are connected to any process of the server, and how much of each limit their leases hold. What leases hold counts as used until they report or end.",
    answers: {
      200: {
        schema: localEvaluation,
        example: {
          evaluators: 2,
          leases: 3,
          held: [{ service: "tasker", limit: "maxTasks", leases: 3, amount: 120 }],
        },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
];
