import { z } from "zod";
import { gateVerdict, impactReport } from "./changes.ts";

/** Body of every error. `problems`: errors of a pricing, with places in the file. `gate`: the rules that a change breaks. */
export const failure = z
  .strictObject({
    error: z.string(),
    details: z.string().optional(),
    problems: z
      .array(z.strictObject({ message: z.string(), path: z.string(), line: z.number(), column: z.number() }))
      .optional(),
    gate: gateVerdict.extend({ report: impactReport }).optional(),
  })
  .meta({ id: "Failure" });
