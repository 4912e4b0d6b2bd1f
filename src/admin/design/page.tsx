import type { UseQueryResult } from "@tanstack/react-query";
import { ChevronRight, CircleAlert, type LucideIcon } from "lucide-react";
import { createContext, Fragment, useContext, useEffect, useRef, type ReactNode } from "react";
import { createPortal } from "react-dom";
import { Link, useLocation } from "react-router";
import { Refused } from "../api.ts";
import { texts } from "../texts.ts";

/** The element of the bar that shows where the reader is. */
export const CrumbsPlace = createContext<HTMLElement | null>(null);

/** True until a page was shown. Later pages move the focus to their heading, as a full load would. */
export const arrival = { isFirst: true };

/** A page above this one: its name and its address. */
export type Crumb = readonly [name: string, to: string];

/** A page; its title is the heading, the document title and the last crumb. */
export function Page(props: {
  title: string;
  lead?: ReactNode;
  /** Short facts below the title. */
  meta?: ReactNode;
  /** A picture left of the title. */
  face?: ReactNode;
  actions?: ReactNode;
  crumbs?: readonly Crumb[];
  children: ReactNode;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  const { pathname } = useLocation();
  const place = useContext(CrumbsPlace);
  useEffect(() => {
    document.title = `${props.title} · ${texts.shell.product}`;
  }, [props.title]);
  useEffect(() => {
    if (!arrival.isFirst) heading.current?.focus();
    arrival.isFirst = false;
  }, [pathname]);
  return (
    <>
      {place === null
        ? null
        : createPortal(<Crumbs title={props.title} crumbs={props.crumbs ?? []} />, place, "crumbs")}
      <header className="head">
        <div className="head-title">
          {props.face}
          <div>
            <h1 ref={heading} tabIndex={-1}>
              {props.title}
            </h1>
            {props.lead === undefined ? null : <p>{props.lead}</p>}
            {props.meta === undefined ? null : <div className="meta">{props.meta}</div>}
          </div>
        </div>
        {props.actions === undefined ? null : <div className="actions">{props.actions}</div>}
      </header>
      {props.children}
    </>
  );
}

function Crumbs({ title, crumbs }: { title: string; crumbs: readonly Crumb[] }) {
  return (
    <>
      {crumbs.map(([name, to]) => (
        <Fragment key={to}>
          <Link to={to}>{name}</Link>
          <ChevronRight />
        </Fragment>
      ))}
      <b className="clip" aria-current="page">
        {title}
      </b>
    </>
  );
}

export function Section(props: { title: string; lead?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="section">
      <header>
        <div>
          <h2>{props.title}</h2>
          {props.lead === undefined ? null : <p>{props.lead}</p>}
        </div>
        {props.actions === undefined ? null : <div className="actions">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** Placeholder while content loads; it reserves space to avoid a layout shift. */
export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label={texts.common.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className="bone" />
      ))}
    </div>
  );
}

/** The part of a query result that a page needs. */
type Asked<T> = { data: T | undefined } & Pick<UseQueryResult, "error" | "refetch">;

/** Shows a query's data, a skeleton while it loads, or the error with a retry button. */
export function Loaded<T>(props: { query: Asked<T>; lines?: number; children: (data: T) => ReactNode }): ReactNode {
  const { query } = props;
  if (query.data !== undefined) return props.children(query.data);
  if (query.error !== null) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton lines={props.lines ?? 4} />;
}

/** A fact that needs attention, with at most one action. Its colour only repeats the words. */
export function Note(props: {
  tone?: "info" | "good" | "warn" | "bad";
  icon?: LucideIcon;
  role?: "alert" | "status";
  action?: ReactNode;
  children: ReactNode;
}) {
  const { tone = "info", icon: Icon = CircleAlert, role } = props;
  return (
    <div className={`note ${tone}`} role={role}>
      <Icon />
      <div className="grow">{props.children}</div>
      {props.action}
    </div>
  );
}

/** Shows an error's message and a way out, announced to screen readers. */
export function Failed(props: { error: Error | null; onRetry?: (() => void) | undefined; action?: ReactNode }) {
  const { error, onRetry, action } = props;
  if (error === null) return null;
  const hint = error instanceof Refused && error.status === 403 ? texts.common.askAdmin : undefined;
  const retry =
    onRetry === undefined ? undefined : (
      <button type="button" className="b small" onClick={onRetry}>
        {texts.common.retry}
      </button>
    );
  return (
    <Note tone="bad" role="alert" action={retry ?? action}>
      <b className="strong">{error.message}</b>
      {hint === undefined ? null : <p className="soft">{hint}</p>}
    </Note>
  );
}

/** Empty state with a suggested action. */
export function Empty({
  children,
  action,
  icon: Icon,
}: {
  children: ReactNode;
  action?: ReactNode;
  icon?: LucideIcon;
}) {
  return (
    <div className="empty">
      {Icon === undefined ? null : <Icon />}
      <p>{children}</p>
      {action}
    </div>
  );
}
