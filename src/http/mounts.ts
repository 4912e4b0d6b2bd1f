import type { Hono } from "hono";
import { API_PREFIX, MCP_PATH } from "./authorize.ts";
import type { AppEnv, HttpSettings } from "./context.ts";
import { mcpRoute } from "./mcp/route.ts";
import { billingMessageRoutes, billingRoutes, contractBillingRoutes } from "./routes/billing.ts";
import { changeRoutes } from "./routes/changes.ts";
import { approvalRoutes, changeRequestRoutes } from "./routes/approvals.ts";
import { auditLogRoutes } from "./routes/audit-log.ts";
import { contractRoutes, organizationContractRoutes } from "./routes/contracts.ts";
import { documentationRoutes, type ReadAsset } from "./routes/documentation.ts";
import { featureRoutes } from "./routes/features.ts";
import { ofrepRoutes } from "./routes/ofrep.ts";
import { gateRoutes } from "./routes/gate.ts";
import { invitationRoutes, organizationInvitationRoutes } from "./routes/invitations.ts";
import { contractMemberRoutes } from "./routes/members.ts";
import { contractBlockRoutes, organizationBlockRoutes } from "./routes/blocks.ts";
import { contractBudgetRoutes } from "./routes/budgets.ts";
import { contractHoldRoutes, holdRoutes } from "./routes/holds.ts";
import { featureLeaseRoutes, leaseRoutes } from "./routes/leases.ts";
import { offerRoutes, publicOfferRoutes, publishingRoutes } from "./routes/offers.ts";
import { keyOrganizationRoute, organizationRoutes } from "./routes/organizations.ts";
import { contractOverrideRoutes, overrideRoutes } from "./routes/overrides.ts";
import { recoveryRoutes } from "./routes/recovery.ts";
import { contractScheduledRoutes, scheduledRoutes } from "./routes/scheduled.ts";
import { serviceRoutes } from "./routes/services.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { signOnRoutes } from "./routes/sign-on.ts";
import { snapshotRoutes } from "./routes/snapshot.ts";
import { streamRoutes } from "./routes/stream.ts";
import { systemRoutes } from "./routes/system.ts";
import { usageRoutes } from "./routes/usage.ts";
import { localEvaluationRoutes } from "./routes/local-evaluation.ts";
import { contractUsageRoutes, organizationUsageRoutes } from "./routes/usage-history.ts";
import { usageAlertRoutes } from "./routes/usage-alerts.ts";
import { userRoutes } from "./routes/users.ts";
import { webhookRoutes } from "./routes/webhooks.ts";

/** Options of an application that its routes need. */
export interface RouteOptions {
  settings: HttpSettings;
  /** Files of the reference page. Default: the document without a page. */
  readAsset?: ReadAsset;
  /** Files of the built console. Default: no console. */
  readConsole?: ReadAsset;
  /** Bounds of event streams, for tests. */
  streams?: Parameters<typeof streamRoutes>[0];
}

/** Prefix of the calls of members, who name their organization. */
const IN_ORGANIZATION = "/organizations/:organizationId";

/** Mounts all routes behind authorization. */
export function mountRoutes(app: Hono<AppEnv>, options: RouteOptions): void {
  const { readAsset, readConsole, streams, settings } = options;
  const { baseUrlPath } = settings;
  const mount = (path: string, routes: Hono<AppEnv>) => app.route(API_PREFIX + path, routes);
  /** Mounts routes for the organization of the caller's key, and for one that the path names. */
  const mountTwice = (path: string, routes: Hono<AppEnv>, inOrganization = routes) => {
    mount(path, routes);
    mount(`${IN_ORGANIZATION}${path}`, inOrganization);
  };
  mount("/users", userRoutes);
  mount("/sessions", sessionRoutes);
  mount("/recovery", recoveryRoutes);
  mount("/auth", signOnRoutes);
  mount("/organization", keyOrganizationRoute);
  mount("/organizations", organizationRoutes);
  mount(`${IN_ORGANIZATION}/invitations`, organizationInvitationRoutes);
  mount("/invitations", invitationRoutes);
  mountTwice("/services", serviceRoutes);
  mountTwice("/services", changeRoutes);
  mountTwice("/services", offerRoutes);
  mount("/public-offers", publicOfferRoutes);
  mount(`${IN_ORGANIZATION}/public-offer`, publishingRoutes);
  mountTwice("/contracts", contractRoutes, organizationContractRoutes);
  mountTwice("/contracts", contractOverrideRoutes);
  mountTwice("/overrides", overrideRoutes);
  mountTwice("/contracts", contractScheduledRoutes);
  mountTwice("/contracts", contractHoldRoutes);
  mountTwice("/contracts", contractBlockRoutes);
  mountTwice("/contracts", contractMemberRoutes);
  mountTwice("/contracts", contractBudgetRoutes);
  mount(`${IN_ORGANIZATION}/blocks`, organizationBlockRoutes);
  mount("/holds", holdRoutes);
  mountTwice("/scheduled", scheduledRoutes);
  mount("/features", featureRoutes);
  mount("/features", featureLeaseRoutes);
  mount("/leases", leaseRoutes);
  mount("/snapshot", snapshotRoutes);
  mount("/usage", usageRoutes);
  mountTwice("/usage", organizationUsageRoutes);
  mountTwice("/contracts", contractUsageRoutes);
  mountTwice("/contracts", contractBillingRoutes);
  mount(`${IN_ORGANIZATION}/billing`, billingRoutes);
  mount("/billing", billingMessageRoutes);
  mountTwice("/webhooks", webhookRoutes);
  app.route("/ofrep/v1/evaluate/flags", ofrepRoutes);
  mountTwice("/audit-log", auditLogRoutes);
  mount(`${IN_ORGANIZATION}/gate`, gateRoutes);
  mount(`${IN_ORGANIZATION}/approvals`, approvalRoutes);
  mount(`${IN_ORGANIZATION}/change-requests`, changeRequestRoutes);
  mount(`${IN_ORGANIZATION}/usage-alerts`, usageAlertRoutes);
  mount(`${IN_ORGANIZATION}/local-evaluation`, localEvaluationRoutes);
  mount("", systemRoutes);
  mount("", streamRoutes(streams));
  mount("", documentationRoutes(baseUrlPath, readAsset));
  app.all(
    MCP_PATH,
    mcpRoute({
      fetch: (request, bindings) => app.fetch(request, bindings as object),
      baseUrlPath,
      readConsole,
    }),
  );
}
