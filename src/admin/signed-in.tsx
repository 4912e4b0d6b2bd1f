import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Component, lazy, Suspense, useState, type ReactNode } from "react";
import { Link, Navigate, Outlet, Route, Routes, useLocation, useParams } from "react-router";
import type { Organization, OrganizationPage } from "./answers.ts";
import { Refused } from "./api.ts";
import { Empty, Loaded, Note, Page } from "./design/page.tsx";
import { ToastProvider } from "./design/toast.tsx";
import { Shell } from "./parts/shell.tsx";
import { useAsk } from "./queries.ts";
import { HereProvider, KEPT_ORGANIZATION } from "./here.tsx";
import { useSession } from "./session.tsx";
import { StreamProvider } from "./stream.tsx";
import { texts } from "./texts.ts";

const InvitationPage = lazy(async () => ({ default: (await import("./pages/invitation.tsx")).InvitationPage }));
const NewPasswordPage = lazy(async () => ({ default: (await import("./pages/recovery.tsx")).NewPasswordPage }));
const SignInAgain = lazy(async () => ({ default: (await import("./parts/sign-in-again.tsx")).SignInAgain }));
const OverviewPage = lazy(async () => ({ default: (await import("./pages/overview.tsx")).OverviewPage }));
const AccountPage = lazy(async () => ({ default: (await import("./pages/account.tsx")).AccountPage }));
const SessionsPage = lazy(async () => ({ default: (await import("./pages/sessions.tsx")).SessionsPage }));

const ServicesPage = lazy(async () => ({ default: (await import("./pages/services.tsx")).ServicesPage }));
const ServicePage = lazy(async () => ({ default: (await import("./pages/service.tsx")).ServicePage }));
const UploadPage = lazy(async () => ({ default: (await import("./pages/upload.tsx")).UploadPage }));
const ContractsPage = lazy(async () => ({ default: (await import("./pages/contracts.tsx")).ContractsPage }));
const ContractPage = lazy(async () => ({ default: (await import("./pages/contract.tsx")).ContractPage }));
const NewContractPage = lazy(async () => ({ default: (await import("./pages/new-contract.tsx")).NewContractPage }));
const KeysPage = lazy(async () => ({ default: (await import("./pages/keys.tsx")).KeysPage }));
const MembersPage = lazy(async () => ({ default: (await import("./pages/members.tsx")).MembersPage }));
const OrganizationsPage = lazy(async () => ({
  default: (await import("./pages/organizations.tsx")).OrganizationsPage,
}));
const UsersPage = lazy(async () => ({ default: (await import("./pages/users.tsx")).UsersPage }));
const PlaygroundPage = lazy(async () => ({ default: (await import("./pages/playground.tsx")).PlaygroundPage }));
const TokensPage = lazy(async () => ({ default: (await import("./pages/tokens.tsx")).TokensPage }));
const EventsPage = lazy(async () => ({ default: (await import("./pages/events.tsx")).EventsPage }));
const WebhooksPage = lazy(async () => ({ default: (await import("./pages/webhooks.tsx")).WebhooksPage }));
const ComparePage = lazy(async () => ({ default: (await import("./pages/compare.tsx")).ComparePage }));
const PricePage = lazy(async () => ({ default: (await import("./pages/price-page.tsx")).PricePage }));
const ChangePage = lazy(async () => ({ default: (await import("./pages/change.tsx")).ChangePage }));
const NovationPage = lazy(async () => ({ default: (await import("./pages/change.tsx")).NovationPage }));
const DecisionsPage = lazy(async () => ({ default: (await import("./pages/decisions.tsx")).DecisionsPage }));
const GatePage = lazy(async () => ({ default: (await import("./pages/gate.tsx")).GatePage }));
const ApprovalsPage = lazy(async () => ({ default: (await import("./pages/approvals.tsx")).ApprovalsPage }));
const BillingPage = lazy(async () => ({ default: (await import("./pages/billing.tsx")).BillingPage }));
const CreditsPage = lazy(async () => ({ default: (await import("./pages/credits.tsx")).CreditsPage }));
const OverridesPage = lazy(async () => ({ default: (await import("./pages/overrides.tsx")).OverridesPage }));
const UpcomingPage = lazy(async () => ({ default: (await import("./pages/upcoming.tsx")).UpcomingPage }));
const UsagePage = lazy(async () => ({ default: (await import("./pages/usage.tsx")).UsagePage }));
const DenialsPage = lazy(async () => ({ default: (await import("./pages/denials.tsx")).DenialsPage }));
const AuditPage = lazy(async () => ({ default: (await import("./pages/audit.tsx")).AuditPage }));
const AnalyticsPage = lazy(async () => ({ default: (await import("./pages/analytics.tsx")).AnalyticsPage }));
const CachePage = lazy(async () => ({ default: (await import("./pages/cache.tsx")).CachePage }));
const DocsPage = lazy(async () => ({ default: (await import("./pages/docs.tsx")).DocsPage }));
const DesignPage = lazy(async () => ({ default: (await import("./pages/design.tsx")).DesignPage }));
const HealthPage = lazy(async () => ({ default: (await import("./pages/health.tsx")).HealthPage }));

/** Creates the cache of one session, which ends with it. */
const createQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 15_000,
        // Retry lost connections twice. Retrying an error response would only fail again.
        retry: (failures, error) => failures < 2 && !(error instanceof Refused && error.status !== 0),
      },
    },
  });

/** Pages for signed-in users. */
export function SignedIn() {
  const [queries] = useState(createQueries);
  const { ended } = useSession();
  return (
    <QueryClientProvider client={queries}>
      <ToastProvider>
        <Pages />
        <Suspense fallback={null}>{ended ? <SignInAgain /> : null}</Suspense>
      </ToastProvider>
    </QueryClientProvider>
  );
}

function Pages() {
  return (
    <Boundary>
      <Routes>
        <Route path="/" element={<Home />} />
        <Route path="/register" element={<Navigate to="/" replace />} />
        <Route path="/invitations/:token" element={<InvitationPage />} />
        <Route path="/recovery" element={<Navigate to="/" replace />} />
        <Route path="/recovery/:token" element={<NewPasswordPage />} />
        <Route path="/sign-in" element={<SignedInAlready />} />
        <Route path="/o/:organizationId" element={<InOrganization />}>
          <Route element={<PageBoundary />}>
            <Route index element={<OverviewPage />} />
            <Route path="services" element={<ServicesPage />} />
            <Route path="services/:service" element={<ServicePage />} />
            <Route path="services/:service/versions/:version" element={<ServicePage />} />
            <Route path="services/:service/compare" element={<ComparePage />} />
            <Route path="services/:service/price-page" element={<PricePage />} />
            <Route path="services/:service/archive/:version" element={<ChangePage action="archive" />} />
            <Route path="services/:service/activate/:version" element={<ChangePage action="activate" />} />
            <Route path="services/:service/disable" element={<ChangePage action="disable" />} />
            <Route path="services/:service/novate" element={<NovationPage />} />
            <Route path="services/:service/decisions" element={<DecisionsPage />} />
            <Route path="upload" element={<UploadPage />} />
            <Route path="contracts" element={<ContractsPage />} />
            <Route path="contracts/:userId" element={<ContractPage />} />
            <Route path="new-contract" element={<NewContractPage />} />
            <Route path="playground" element={<PlaygroundPage />} />
            <Route path="tokens" element={<TokensPage />} />
            <Route path="events" element={<EventsPage />} />
            <Route path="webhooks" element={<WebhooksPage />} />
            <Route path="keys" element={<KeysPage />} />
            <Route path="members" element={<MembersPage />} />
            <Route path="gate" element={<GatePage />} />
            <Route path="approvals" element={<ApprovalsPage />} />
            <Route path="overrides" element={<OverridesPage />} />
            <Route path="billing" element={<BillingPage />} />
            <Route path="credits" element={<CreditsPage />} />
            <Route path="upcoming" element={<UpcomingPage />} />
            <Route path="usage" element={<UsagePage />} />
            <Route path="denials" element={<DenialsPage />} />
            <Route path="audit" element={<AuditPage />} />
            <Route path="*" element={<NotFoundPage />} />
          </Route>
        </Route>
        <Route element={<Shell />}>
          <Route element={<PageBoundary />}>
            <Route path="/account" element={<AccountPage />} />
            <Route path="/sessions" element={<SessionsPage />} />
            <Route path="/organizations" element={<OrganizationsPage />} />
            <Route path="/users" element={<UsersPage />} />
            <Route path="/analytics" element={<AnalyticsPage />} />
            <Route path="/cache" element={<CachePage />} />
            <Route path="/docs" element={<DocsPage />} />
            <Route path="/docs/:guide" element={<DocsPage />} />
            <Route path="/design" element={<DesignPage />} />
            <Route path="/health" element={<HealthPage />} />
            <Route path="*" element={<NotFoundPage />} />
          </Route>
        </Route>
      </Routes>
    </Boundary>
  );
}

/** Redirects from the sign-in page. A link to the provider that failed comes back there. */
function SignedInAlready() {
  const { search } = useLocation();
  return <Navigate to={search.startsWith("?error=") ? `/account${search}` : "/"} replace />;
}

/** Redirects to the last visited organization, otherwise to the user's own. */
function Home() {
  const kept = localStorage.getItem(KEPT_ORGANIZATION);
  return kept === null ? <FirstOrganization /> : <Navigate to={`/o/${kept}`} replace />;
}

function FirstOrganization() {
  const list = useAsk<OrganizationPage>("/organizations", { limit: 20 });
  const { user } = useSession();
  return (
    <Loaded query={list} lines={8}>
      {({ data }) => {
        const own = data.find((each) => each.owner === user?.username) ?? data[0];
        if (own === undefined) return <Navigate to="/organizations" replace />;
        return <Navigate to={`/o/${own.id}`} replace />;
      }}
    </Loaded>
  );
}

function InOrganization() {
  const { organizationId = "" } = useParams();
  const organization = useAsk<Organization>(`/organizations/${organizationId}`);
  const { error } = organization;
  const isKept = localStorage.getItem(KEPT_ORGANIZATION) === organizationId;
  if (isKept && error instanceof Refused && (error.status === 403 || error.status === 404)) {
    localStorage.removeItem(KEPT_ORGANIZATION);
    return <Navigate to="/" replace />;
  }
  if (organization.data === undefined) {
    return (
      <main>
        <Loaded query={organization} lines={8}>
          {() => null}
        </Loaded>
        {organization.error === null ? null : <Link to="/organizations">{texts.shell.allOrganizations}</Link>}
      </main>
    );
  }
  return (
    <HereProvider organization={organization.data}>
      <StreamProvider>
        <Shell organization={organization.data} />
      </StreamProvider>
    </HereProvider>
  );
}

function NotFoundPage() {
  return (
    <Page title={texts.common.notFoundTitle}>
      <Empty action={<Link to="/">{texts.common.toOverview}</Link>}>{texts.common.notFound}</Empty>
    </Page>
  );
}

/** Confines an error to the page inside the shell. Another page ends it. */
function PageBoundary() {
  const { pathname } = useLocation();
  return (
    <Boundary pathname={pathname}>
      <Outlet />
    </Boundary>
  );
}

/** Shows an error of rendering, or of a chunk that did not load, in place of its children. */
class Boundary extends Component<{ pathname?: string; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override componentDidUpdate({ pathname }: { pathname?: string }): void {
    if (pathname !== this.props.pathname) this.setState({ failed: false });
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    const note = (
      <Note
        tone="bad"
        role="alert"
        action={
          <button type="button" className="b small" onClick={() => location.reload()}>
            {texts.errors.reload}
          </button>
        }
      >
        {texts.errors.crashed}
      </Note>
    );
    return this.props.pathname === undefined ? <main>{note}</main> : note;
  }
}
