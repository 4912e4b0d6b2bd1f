import type { ReactNode } from "react";

/** A table that scrolls inside its own region on narrow screens, by keyboard too. */
export function Table(props: { label: string; head: readonly ReactNode[]; children: ReactNode; isMatrix?: boolean }) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table className={props.isMatrix === true ? "matrix" : undefined}>
        <thead>
          <tr>
            {props.head.map((cell, column) => (
              <th key={column} scope="col">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

/** A status label; its colour only repeats the word. */
export function Badge({ tone, children }: { tone: "good" | "warn" | "danger" | "plain"; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}
