import {
  CalendarClock,
  BookOpen,
  Boxes,
  Building2,
  ChartColumn,
  ChevronDown,
  ChevronRight,
  ChevronsUpDown,
  Coins,
  CreditCard,
  ContactRound,
  Ellipsis,
  GraduationCap,
  HeartPulse,
  History,
  House,
  KeyRound,
  LogOut,
  type LucideIcon,
  Menu as MenuIcon,
  OctagonX,
  Package,
  Radio,
  ScanSearch,
  Search,
  SearchCheck,
  ShieldCheck,
  Tag,
  UserCheck,
  UserRound,
  UsersRound,
  Webhook,
} from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { Link, NavLink, Outlet, useLocation, useNavigate } from "react-router";
import { may, roleIn } from "../access.ts";
import { KEPT_ORGANIZATION } from "../here.tsx";
import type { Organization, OrganizationPage } from "../answers.ts";
import { API_URL, type Method } from "../api.ts";
import { Face, Mark } from "../design/mark.tsx";
import { Menu, MenuChoice, MenuItem, MenuLine } from "../design/menu.tsx";
import { CrumbsPlace, Skeleton } from "../design/page.tsx";
import { ThemeChoice } from "../design/theme-choice.tsx";
import { chooseLanguage, chosenLanguage, LANGUAGE_NAMES } from "../language.ts";
import { useAsk } from "../queries.ts";
import { useSession, useUser } from "../session.tsx";
import { texts } from "../texts.ts";
import { ConnectionBanner, LiveState } from "./live-state.tsx";
import { useShortcuts } from "./shortcuts.ts";

const t = texts.shell;
type PageName = keyof typeof t.pages;

const Palette = lazy(async () => ({ default: (await import("./palette.tsx")).Palette }));

interface Entry {
  name: PageName;
  icon: LucideIcon;
  /** Path below the organization, or of the whole console for pages of the server. */
  to: string;
  /** The GET call whose permission shows the entry. Default: everybody sees it. */
  call?: string;
}

/** Pages of an organization. Calls are below it. */
export const INSIDE: readonly { group?: keyof typeof t.groups; pages: readonly Entry[] }[] = [
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
export const SERVER: readonly Entry[] = [
  { name: "organizations", icon: Building2, to: "/organizations" },
  { name: "users", icon: UserRound, to: "/users" },
  { name: "analytics", icon: ChartColumn, to: "/analytics" },
  { name: "health", icon: HeartPulse, to: "/health" },
  { name: "cache", icon: Boxes, to: "/cache" },
];

/** Frame of every page for signed-in users. */
export function Shell({ organization }: { organization?: Organization }) {
  const [isOpen, setIsOpen] = useState(false);
  const [isSearching, setIsSearching] = useState(false);
  const [place, setPlace] = useState<HTMLElement | null>(null);
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  useEffect(() => setIsOpen(false), [pathname]);
  const { inside } = usePages(organization);
  useShortcuts(
    () => setIsSearching(true),
    inside.flatMap(({ pages }) => pages),
  );
  return (
    <div className="app">
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t.skip}
      </a>
      <aside id="navigation" aria-label={t.product} className={isOpen ? "side open" : "side"}>
        <OrganizationMenu current={organization} />
        <button type="button" className="find" title={t.find} onClick={() => setIsSearching(true)}>
          <Search />
          <span className="grow">{t.find}</span>
          <kbd>{IS_MAC ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        <Navigation organization={organization} isDrawerOpen={isOpen} />
        <div className="side-foot">
          <AccountMenu organization={organization} />
        </div>
      </aside>
      {isOpen ? <div className="scrim" onClick={() => setIsOpen(false)} /> : null}
      <div className="panel">
        <header className="phone-bar">
          <button
            type="button"
            className="b plain icon"
            aria-expanded={isOpen}
            aria-controls="navigation"
            aria-label={isOpen ? t.closeMenu : t.openMenu}
            onClick={() => setIsOpen(!isOpen)}
          >
            <MenuIcon />
          </button>
          <Mark />
          <b className="grow clip">{organization?.name ?? t.product}</b>
          <button type="button" className="b plain icon" aria-label={t.find} onClick={() => setIsSearching(true)}>
            <Search />
          </button>
        </header>
        <header className="bar">
          <nav className="crumbs grow" aria-label={t.place} ref={setPlace} />
          <Link className="link small" to={guideOf(pathname)}>
            {t.help}
          </Link>
          {organization === undefined ? null : <LiveState />}
        </header>
        <main id="main" ref={main} tabIndex={-1}>
          {organization === undefined ? null : <ConnectionBanner />}
          <CrumbsPlace.Provider value={place}>
            <Suspense fallback={<Skeleton lines={8} />}>
              <Outlet />
            </Suspense>
          </CrumbsPlace.Provider>
        </main>
      </div>
      {isSearching ? (
        <Suspense fallback={null}>
          <Palette organization={organization} onClose={() => setIsSearching(false)} />
        </Suspense>
      ) : null}
    </div>
  );
}

export const IS_MAC = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** Guides about pages, by the first part of their address that names one. */
const GUIDES: readonly (readonly [part: RegExp, guide: string])[] = [
  [/\/(archive|activate|disable|novate|compare|decisions|gate)(\/|$)/, "change-a-pricing"],
  [/\/approvals$/, "sign-in"],
  [/\/price-page$/, "offers"],
  [/\/(overrides|upcoming)$/, "custom-terms"],
  [/\/(upload|services)(\/|$)/, "pricing-file"],
  [/\/(webhooks|events|usage)$/, "events"],
  [/\/(members|audit|organizations|users|analytics|health|cache|account|sessions)$/, "operate"],
];

/** Returns the address of the guide about a page. */
function guideOf(pathname: string): string {
  const [, guide] = GUIDES.find(([part]) => part.test(pathname)) ?? ["", "clients"];
  return pathname.startsWith("/docs") ? "/docs" : `/docs/${guide}`;
}

/** Returns the id of the organization whose pages are listed, and which of them this user may open. */
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

function Navigation(props: { organization: Organization | undefined; isDrawerOpen: boolean }) {
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

function Trigger({ kind, face, name, detail, icon }: Record<"kind" | "face" | "name" | "detail" | "icon", ReactNode>) {
  return (
    <>
      <span className="visually-hidden">{kind}: </span>
      {face}
      <span className="grow">
        <b className="clip">{name}</b>
        <small>{detail}</small>
      </span>
      {icon}
    </>
  );
}

function OrganizationMenu({ current }: { current: Organization | undefined }) {
  const go = useNavigate();
  const list = useAsk<OrganizationPage>("/organizations", { limit: 20 });
  return (
    <Menu
      className="org"
      hasText
      label={current === undefined ? t.organization : `${t.organization}: ${current.name}`}
      trigger={
        <Trigger
          kind={t.organization}
          face={<Mark />}
          name={current?.name ?? t.organization}
          detail={t.product}
          icon={<ChevronsUpDown />}
        />
      }
    >
      {list.data?.data.map(({ id, name }) => (
        <MenuItem key={id} onSelect={() => void go(`/o/${id}`)}>
          {name}
        </MenuItem>
      ))}
      <MenuLine />
      <MenuItem icon={Building2} onSelect={() => void go("/organizations")}>
        {t.allOrganizations}
      </MenuItem>
    </Menu>
  );
}

function AccountMenu({ organization }: { organization: Organization | undefined }) {
  const go = useNavigate();
  const user = useUser();
  const { signOut } = useSession();
  const role = roleIn(organization, user.username);
  const detail = role === undefined ? t.platformRoles[user.role] : texts.members.roles[role];
  return (
    <Menu
      className="org"
      hasText
      label={`${t.account}: ${user.username}`}
      trigger={
        <Trigger
          kind={t.account}
          face={<Face name={user.username} />}
          name={user.username}
          detail={detail}
          icon={<Ellipsis />}
        />
      }
    >
      <MenuItem icon={UserRound} onSelect={() => void go("/account")}>
        {t.account}
      </MenuItem>
      <p className="menu-label">{t.theme.label}</p>
      <ThemeChoice />
      <p className="menu-label">{t.language}</p>
      <MenuChoice label={t.language} value={chosenLanguage()} onChange={chooseLanguage} options={LANGUAGE_NAMES} />
      <MenuLine />
      <MenuItem icon={LogOut} onSelect={() => void signOut()}>
        {t.signOut}
      </MenuItem>
    </Menu>
  );
}
