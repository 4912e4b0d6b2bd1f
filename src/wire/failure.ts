import { z } from "zod";
import { changeReport } from "./approvals.ts";
import { gateVerdict, impactReport } from "./impact.ts";

/** Body of every error. `problems`: errors of a pricing, with places in the file. `gate`: the rules that a change breaks. `report`: the new one of a change request. */
export const failure = z
  .strictObject({
    error: z.string(),
    details: z.string().optional(),
    problems: z
      .array(z.strictObject({ message: z.string(), path: z.string(), line: z.number(), column: z.number() }))
      .optional(),
    report: changeReport.optional(),
    gate: gateVerdict.extend({ report: impactReport }).optional(),
  })
  .meta({ id: "Failure" });
