import type { ReactNode } from "react";
import { texts } from "../texts.ts";

/** A table that scrolls inside its own region on narrow screens, by keyboard too. */
export function Table(props: {
  label: string;
  head: readonly ReactNode[];
  children: ReactNode;
  isMatrix?: boolean;
  /** Class for rows of two lines on phones. */
  className?: string;
}) {
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
        <tbody>{props.children}</tbody>
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
