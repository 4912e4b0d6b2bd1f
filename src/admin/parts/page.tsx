import { useEffect, type ReactNode } from "react";
import type { UseQueryResult } from "@tanstack/react-query";
import { Refused } from "../api.ts";
import { texts } from "../texts.ts";

/** A page; its title is both the heading and the document title. */
export function Page(props: { title: string; lead?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${props.title} · ${texts.shell.product}`;
  }, [props.title]);
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>{props.title}</h1>
          {props.lead === undefined ? null : <p className="lead">{props.lead}</p>}
        </div>
        {props.actions === undefined ? null : <div className="actions">{props.actions}</div>}
      </header>
      {props.children}
    </div>
  );
}

export function Section(props: { title: string; lead?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="card">
      <header className="card-head">
        <h2>{props.title}</h2>
        {props.actions === undefined ? null : <div className="actions">{props.actions}</div>}
      </header>
      {props.lead === undefined ? null : <p className="lead">{props.lead}</p>}
      {props.children}
    </section>
  );
}

/** Placeholder while content loads; it reserves space to avoid a layout shift. */
export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label={texts.common.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} />
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

/** Shows an error's message and a way out, announced to screen readers. */
export function Failed({ error, onRetry }: { error: Error | null; onRetry?: () => void }) {
  if (error === null) return null;
  const hint = error instanceof Refused && error.status === 403 ? texts.common.askAdmin : undefined;
  return (
    <div className="failed" role="alert">
      <p>
        <strong>{texts.errors.title}.</strong> {error.message}
      </p>
      {hint === undefined ? null : <p>{hint}</p>}
      {onRetry === undefined ? null : (
        <button type="button" className="button" onClick={onRetry}>
          {texts.common.retry}
        </button>
      )}
    </div>
  );
}

/** Empty state with a suggested action. */
export function Empty({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <p>{children}</p>
      {action}
    </div>
  );
}
