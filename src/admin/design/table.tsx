import { useEffect, useRef, type ReactNode } from "react";
import { texts } from "../texts.ts";

/** A table that scrolls inside its own region, by keyboard too. On phones its rows are cards. */
export function Table(props: {
  label: string;
  head: readonly ReactNode[];
  children: ReactNode;
  isMatrix?: boolean;
  /** Class for rows of another shape on phones. */
  className?: string;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  // The head is hidden on phones, so each cell carries its word there. Elsewhere it is aligned as its column.
  useEffect(() => {
    const heads = body.current?.closest("table")?.tHead?.rows[0]?.cells ?? [];
    for (const [column, cell] of [...(body.current?.rows[0]?.cells ?? [])].entries())
      heads[column]?.classList.toggle("right", cell.classList.contains("right"));
    for (const row of body.current?.rows ?? [])
      for (const [column, cell] of [...row.cells].entries()) {
        const label = props.head[column];
        if (typeof label === "string" && label !== "") cell.dataset["label"] = label;
      }
  });
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table className={props.isMatrix === true ? "matrix" : props.className}>
        <thead>
          <tr>
            {props.head.map((cell, column) => (
              <th key={column} scope="col">
                {cell === "" ? <span className="visually-hidden">{texts.common.moreColumn}</span> : cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>{props.children}</tbody>
      </table>
    </div>
  );
}

type Tone = "good" | "warn" | "bad" | "info" | "plain";

/** One or two words about an exception; the colour only repeats them. */
export function Tag({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`tag ${tone}`}>{children}</span>;
}

/** A state: a dot and a word. */
export function Status({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={tone === "plain" ? "status hollow" : `status ${tone}`}>{children}</span>;
}
