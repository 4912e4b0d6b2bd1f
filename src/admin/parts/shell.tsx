import { Menu as MenuIcon, Search } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { Link, Outlet, useLocation } from "react-router";
import type { Organization } from "../answers.ts";
import { Mark } from "../design/mark.tsx";
import { CrumbsPlace, Skeleton } from "../design/page.tsx";
import { texts } from "../texts.ts";
import { ConnectionBanner, LiveState } from "./live-state.tsx";
import { IS_MAC, useShortcuts } from "./shortcuts.ts";
import { Navigation, usePages } from "./navigation.tsx";
import { AccountMenu, OrganizationMenu } from "./shell-menus.tsx";

const t = texts.shell;

const Palette = lazy(async () => ({ default: (await import("./palette.tsx")).Palette }));

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
