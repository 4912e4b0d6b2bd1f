import { useEffect, type ReactNode } from "react";
import type { UseQueryResult } from "@tanstack/react-query";
import { Refused } from "../api.ts";
import { texts } from "../texts.ts";

/** A page: its title is the heading and the browser's. */
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

/** A titled part of a page. */
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

/** Room for what is on its way, so that nothing jumps when it comes. */
export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label={texts.common.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} />
      ))}
    </div>
  );
}

/** As much of a query as a page needs to know. */
type Asked<T> = { data: T | undefined } & Pick<UseQueryResult, "error" | "refetch">;

/** What a query brings, room for it before, and the reason with a way out when it fails. */
export function Loaded<T>(props: { query: Asked<T>; lines?: number; children: (data: T) => ReactNode }): ReactNode {
  const { query } = props;
  if (query.data !== undefined) return props.children(query.data);
  if (query.error !== null) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton lines={props.lines ?? 4} />;
}

/** What went wrong, in the server's sentence, and what can be done. Announced to screen readers. */
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

/** There is nothing yet, and what to do about it. */
export function Empty({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <p>{children}</p>
      {action}
    </div>
  );
}
