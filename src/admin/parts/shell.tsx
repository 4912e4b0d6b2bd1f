import { useEffect, useRef, useState } from "react";
import { NavLink, Outlet, useLocation, useNavigate } from "react-router";
import { may } from "../access.ts";
import type { Organization, OrganizationPage } from "../answers.ts";
import { API_URL, type Method } from "../api.ts";
import { useAsk } from "../queries.ts";
import { useSession, useUser } from "../session.tsx";
import { roleIn } from "../access.ts";
import { texts } from "../texts.ts";
import { Menu, MenuItem } from "./menu.tsx";
import { ThemeChoice } from "./theme.tsx";

const t = texts.shell;
type PageName = keyof typeof t.pages;

/** Navigation entries: path below the organization, and the GET call whose permission shows the entry. */
const INSIDE: readonly (readonly [
  group: keyof typeof t.groups,
  pages: readonly (readonly [PageName, string, string])[],
])[] = [
  [
    "organization",
    [
      ["overview", "", ""],
      ["services", "/services", "/services"],
      ["contracts", "/contracts", "/contracts"],
    ],
  ],
  [
    "tools",
    [
      ["playground", "/playground", "/services"],
      ["tokens", "/tokens", ""],
      ["events", "/events", ""],
      ["webhooks", "/webhooks", "/webhooks"],
    ],
  ],
  [
    "people",
    [
      ["keys", "/keys", ""],
      ["members", "/members", ""],
      ["gate", "/gate", "/gate"],
      ["audit", "/audit", "/audit-log"],
    ],
  ],
];
const PLATFORM: readonly (readonly [page: PageName, call: string])[] = [
  ["organizations", "/organizations"],
  ["users", "/users"],
  ["health", "/healthcheck"],
  ["compatibility", "/analytics/api-calls"],
];

/** Frame of every page for signed-in users. */
export function Shell({ organization }: { organization?: Organization }) {
  const [isOpen, setIsOpen] = useState(false);
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    setIsOpen(false);
    // Move the focus to the new page, as a full load would.
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [pathname]);
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t.skip}
      </a>
      <header className="top">
        <button
          type="button"
          className="button quiet only-narrow"
          aria-expanded={isOpen}
          aria-controls="navigation"
          aria-label={isOpen ? t.closeMenu : t.openMenu}
          onClick={() => setIsOpen(!isOpen)}
        >
          ☰
        </button>
        <span className="brand">{t.product}</span>
        <OrganizationMenu current={organization} />
        <span className="grow" />
        <AccountMenu />
      </header>
      <Navigation organization={organization} isOpen={isOpen} />
      <main id="main" ref={main} tabIndex={-1}>
        <Outlet />
      </main>
    </div>
  );
}

function Navigation({ organization, isOpen }: { organization: Organization | undefined; isOpen: boolean }) {
  const user = useUser();
  const kept = localStorage.getItem("faregate-organization");
  const id = organization?.id ?? kept;
  const inOrganization = roleIn(organization, user.username) ?? (organization === undefined ? "EVALUATOR" : undefined);
  const sees = (method: Method, path: string) =>
    may({ username: user.username, role: user.role, inOrganization }, method, path);
  return (
    <nav id="navigation" className={isOpen ? "navigation open" : "navigation"} aria-label={t.navigation}>
      {id === null
        ? null
        : INSIDE.map(([group, pages]) => (
            <NavigationGroup key={group} title={t.groups[group]}>
              {pages
                .filter(([, , call]) => sees("GET", `/organizations/${id}${call}`))
                .map(([name, to]) => (
                  <NavLink key={name} to={`/o/${id}${to}`} end={to === ""}>
                    {t.pages[name]}
                  </NavLink>
                ))}
            </NavigationGroup>
          ))}
      <NavigationGroup title={t.groups.platform}>
        {PLATFORM.filter(([name, call]) => sees("GET", call) && (name !== "users" || user.role === "ADMIN")).map(
          ([name]) => (
            <NavLink key={name} to={`/${name}`}>
              {t.pages[name]}
            </NavLink>
          ),
        )}
      </NavigationGroup>
      <div className="navigation-foot">
        <ThemeChoice />
        <a href={`${API_URL}/docs`}>{t.documentation}</a>
      </div>
    </nav>
  );
}

function NavigationGroup({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <div className="navigation-group">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

function OrganizationMenu({ current }: { current: Organization | undefined }) {
  const go = useNavigate();
  const list = useAsk<OrganizationPage>("/organizations", { limit: 20 });
  return (
    <Menu
      label={current === undefined ? t.organization : `${t.organization}: ${current.name}`}
      trigger={<span className="clip">{current?.name ?? t.organization}</span>}
    >
      {list.data?.data.map(({ id, name }) => (
        <MenuItem key={id} onSelect={() => void go(`/o/${id}`)}>
          {name}
        </MenuItem>
      ))}
      <MenuItem onSelect={() => void go("/organizations")}>{t.allOrganizations}</MenuItem>
    </Menu>
  );
}

function AccountMenu() {
  const go = useNavigate();
  const user = useUser();
  const { signOut } = useSession();
  return (
    <Menu label={`${t.account}: ${user.username}`} trigger={<span className="clip">{user.username}</span>}>
      <MenuItem onSelect={() => void go("/account")}>{t.account}</MenuItem>
      <MenuItem onSelect={signOut}>{t.signOut}</MenuItem>
    </Menu>
  );
}
