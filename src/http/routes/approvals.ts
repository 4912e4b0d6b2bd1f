import { Hono } from "hono";
import type { ApprovedOperation } from "../../core/approvals.ts";
import {
  approveChange,
  type CarryOut,
  listChangeRequests,
  rejectChange,
  showChangeRequest,
  withdrawChange,
} from "../../operations/approvals/deciding.ts";
import { setApprovals, showApprovals } from "../../operations/approvals/settings.ts";
import { deletePricing } from "../../operations/catalog/pricings.ts";
import { updateService } from "../../operations/catalog/service-changes.ts";
import { disableService, pruneServices } from "../../operations/catalog/services.ts";
import { setAvailability } from "../../operations/changes/availability.ts";
import { setGate } from "../../operations/changes/gates.ts";
import { type LaterAvailability, scheduleAvailability } from "../../operations/changes/scheduled-availability.ts";
import type { Context } from "../../operations/context.ts";
import { novateHolders } from "../../operations/contracts/mass-novation.ts";
import { novateGroup } from "../../operations/contracts/novation.ts";
import { Failure } from "../../operations/errors.ts";
import { approvals, changeApproval, changeRejection, changeRequestState } from "../../wire/approvals.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { organizationOf, queryParameter } from "../params.ts";
import { json } from "../reply.ts";

/** Safe casts: each input was stored as JSON when its operation proposed the change. */
const inputOf = <Input>(input: object) => input as Input;
type InputOf<Operation extends (ctx: Context, input: never) => unknown> = Parameters<Operation>[1];

const OPERATIONS: Record<ApprovedOperation, (ctx: Context, input: object) => Promise<unknown>> = {
  setAvailability: (ctx, input) => setAvailability(ctx, inputOf<InputOf<typeof setAvailability>>(input)),
  scheduleAvailability: (ctx, input) => {
    const { at, ...rest } = inputOf<Omit<LaterAvailability, "at"> & { at: string }>(input);
    return scheduleAvailability(ctx, { ...rest, at: new Date(at) });
  },
  disableService: (ctx, input) => disableService(ctx, inputOf<InputOf<typeof disableService>>(input)),
  updateService: (ctx, input) => updateService(ctx, inputOf<InputOf<typeof updateService>>(input)),
  pruneServices: (ctx, input) => pruneServices(ctx, inputOf<InputOf<typeof pruneServices>>(input)),
  novateHolders: (ctx, input) => novateHolders(ctx, inputOf<InputOf<typeof novateHolders>>(input)),
  novateGroup: (ctx, input) => novateGroup(ctx, inputOf<InputOf<typeof novateGroup>>(input)),
  setGate: (ctx, input) => setGate(ctx, inputOf<InputOf<typeof setGate>>(input)),
  deletePricing: (ctx, input) => deletePricing(ctx, inputOf<InputOf<typeof deletePricing>>(input)),
};
const carryOut: CarryOut = (ctx, operation, input) => OPERATIONS[operation](ctx, input);

/** Settings of changes that need a second person. Source: contract sign-in §4. */
export const approvalRoutes = new Hono<AppEnv>()
  .get("/", async (c) => json(c, await showApprovals(context(c), organizationOf(c))))
  .put("/", async (c) => {
    const settings = bodyOf(c, approvals);
    return json(c, await setApprovals(context(c), { organizationId: organizationOf(c), settings }));
  });

const addressed = (c: AppContext) => ({ organizationId: organizationOf(c), id: c.req.param("changeRequestId") ?? "" });

function stateOf(c: AppContext) {
  const given = queryParameter(c, "state");
  if (given === undefined) return undefined;
  const read = changeRequestState.safeParse(given);
  if (read.success) return read.data;
  throw new Failure("invalid", `INVALID DATA: state must be one of ${changeRequestState.options.join(", ")}`);
}

function isAlone(c: AppContext): boolean {
  const confirm = queryParameter(c, "confirm");
  if (confirm === undefined || confirm === "alone") return confirm === "alone";
  throw new Failure("invalid", "INVALID DATA: confirm must be alone");
}

/** Changes that wait for a second person. */
export const changeRequestRoutes = new Hono<AppEnv>()
  .get("/", async (c) =>
    json(c, await listChangeRequests(context(c), { organizationId: organizationOf(c), state: stateOf(c) })),
  )
  .get("/:changeRequestId", async (c) => json(c, await showChangeRequest(context(c), addressed(c))))
  .post("/:changeRequestId/approve", async (c) => {
    const { revision } = bodyOf(c, changeApproval);
    return json(c, await approveChange(context(c), { ...addressed(c), revision, isAlone: isAlone(c), carryOut }));
  })
  .post("/:changeRequestId/reject", async (c) => {
    const { reason = null } = bodyOf(c, changeRejection);
    return json(c, await rejectChange(context(c), { ...addressed(c), reason }));
  })
  .post("/:changeRequestId/withdraw", async (c) => json(c, await withdrawChange(context(c), addressed(c))));
