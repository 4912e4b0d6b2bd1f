import {
  CalendarClock,
  BookOpen,
  Boxes,
  Building2,
  ChartColumn,
  ChevronDown,
  ChevronRight,
  Coins,
  CreditCard,
  ContactRound,
  GraduationCap,
  HeartPulse,
  History,
  House,
  KeyRound,
  type LucideIcon,
  OctagonX,
  Package,
  Radio,
  ScanSearch,
  SearchCheck,
  ShieldCheck,
  Tag,
  UserCheck,
  UserRound,
  UsersRound,
  Webhook,
} from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { NavLink, useLocation } from "react-router";
import { may, roleIn } from "../access.ts";
import { KEPT_ORGANIZATION } from "../here.tsx";
import type { Organization } from "../answers.ts";
import { API_URL, type Method } from "../api.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.shell;
type PageName = keyof typeof t.pages;

interface Entry {
  name: PageName;
  icon: LucideIcon;
  /** Path below the organization, or of the whole console for pages of the server. */
  to: string;
  /** The GET call whose permission shows the entry. Default: everybody sees it. */
  call?: string;
}

/** Pages of an organization. Calls are below it. */
const INSIDE: readonly { group?: keyof typeof t.groups; pages: readonly Entry[] }[] = [
  { pages: [{ name: "overview", icon: House, to: "" }] },
  {
    group: "pricing",
    pages: [
      { name: "services", icon: Package, to: "/services", call: "/services" },
      { name: "gate", icon: ShieldCheck, to: "/gate", call: "/gate" },
      { name: "approvals", icon: UserCheck, to: "/approvals", call: "/change-requests" },
    ],
  },
  {
    group: "customers",
    pages: [
      { name: "contracts", icon: UsersRound, to: "/contracts", call: "/contracts" },
      { name: "overrides", icon: Tag, to: "/overrides", call: "/overrides" },
      { name: "credits", icon: Coins, to: "/credits", call: "/blocks" },
      { name: "billing", icon: CreditCard, to: "/billing", call: "/billing" },
      { name: "upcoming", icon: CalendarClock, to: "/upcoming", call: "/scheduled" },
      { name: "usage", icon: ChartColumn, to: "/usage", call: "/usage" },
      { name: "denials", icon: OctagonX, to: "/denials", call: "/denials" },
      { name: "playground", icon: SearchCheck, to: "/playground", call: "/services" },
    ],
  },
  {
    group: "developers",
    pages: [
      { name: "keys", icon: KeyRound, to: "/keys" },
      { name: "webhooks", icon: Webhook, to: "/webhooks", call: "/webhooks" },
      { name: "events", icon: Radio, to: "/events" },
      { name: "tokens", icon: ScanSearch, to: "/tokens" },
    ],
  },
  {
    group: "organization",
    pages: [
      { name: "members", icon: ContactRound, to: "/members" },
      { name: "audit", icon: History, to: "/audit", call: "/audit-log" },
    ],
  },
];

/** Pages of the whole server, for platform ADMINs. */
const SERVER: readonly Entry[] = [
  { name: "organizations", icon: Building2, to: "/organizations" },
  { name: "users", icon: UserRound, to: "/users" },
  { name: "analytics", icon: ChartColumn, to: "/analytics" },
  { name: "health", icon: HeartPulse, to: "/health" },
  { name: "cache", icon: Boxes, to: "/cache" },
];

/** Returns the pages that the user may open: of the organization, else of the last one visited, and of the server. */
export function usePages(organization: Organization | undefined): {
  inside: (Omit<(typeof INSIDE)[number], "pages"> & { pages: Entry[] })[];
  server: Entry[];
} {
  const user = useUser();
  const id = organization?.id ?? localStorage.getItem(KEPT_ORGANIZATION);
  const inOrganization = roleIn(organization, user.username) ?? (organization === undefined ? "EVALUATOR" : undefined);
  const sees = (method: Method, path: string) =>
    may({ username: user.username, role: user.role, inOrganization }, method, path);
  return {
    inside:
      id === null
        ? []
        : INSIDE.map(({ pages, ...group }) => ({
            ...group,
            pages: pages
              .filter(({ call }) => sees("GET", `/organizations/${id}${call ?? ""}`))
              .map((entry) => ({ ...entry, to: `/o/${id}${entry.to}` })),
          })),
    server: user.role === "ADMIN" ? [...SERVER] : [],
  };
}

export function Navigation(props: { organization: Organization | undefined; isDrawerOpen: boolean }) {
  const { organization, isDrawerOpen } = props;
  const { inside, server } = usePages(organization);
  const { pathname } = useLocation();
  const [isServerOpen, setIsServerOpen] = useState(!pathname.startsWith("/o/"));
  const list = useRef<HTMLElement>(null);
  // A closed drawer has no place to scroll.
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [pathname, isDrawerOpen]);
  return (
    <nav ref={list} className="nav" aria-label={t.navigation}>
      {inside.map(({ group, pages }) => (
        <div key={group ?? ""}>
          {group === undefined ? null : <h2>{t.groups[group]}</h2>}
          {pages.map((entry) => (
            <NavigationLink key={entry.name} entry={entry} />
          ))}
          {group === "developers" ? (
            <>
              <NavLink to="/docs" title={t.guides}>
                <GraduationCap />
                {t.guides}
              </NavLink>
              <a href={`${API_URL}/docs`} title={t.documentation}>
                <BookOpen />
                {t.documentation}
              </a>
            </>
          ) : null}
        </div>
      ))}
      {server.length === 0 ? null : (
        <div>
          <h2>
            <button type="button" aria-expanded={isServerOpen} onClick={() => setIsServerOpen(!isServerOpen)}>
              {t.groups.server}
              {isServerOpen ? <ChevronDown /> : <ChevronRight />}
            </button>
          </h2>
          {isServerOpen ? server.map((entry) => <NavigationLink key={entry.name} entry={entry} />) : null}
        </div>
      )}
    </nav>
  );
}

function NavigationLink({ entry: { name, icon: Icon, to } }: { entry: Entry }) {
  return (
    <NavLink to={to} end={name === "overview"} title={t.pages[name]}>
      <Icon />
      {t.pages[name]}
    </NavLink>
  );
}
