import { ArrowRight, Minus, MoveRight, Plus, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { texts } from "../texts.ts";

/** A value before and after. */
export function Delta({ before, after, tone }: { before: ReactNode; after: ReactNode; tone?: "good" | "bad" }) {
  return (
    <span className="delta">
      <s>{before}</s>
      <span className="visually-hidden">{texts.common.becomes}</span>
      <ArrowRight />
      <b className={tone}>{after}</b>
    </span>
  );
}

const SIGNS: Record<"more" | "less" | "different", readonly [LucideIcon, "good" | "bad" | undefined]> = {
  more: [Plus, "good"],
  less: [Minus, "bad"],
  different: [MoveRight, undefined],
};

/** A changed feature or limit: sign, name, and the values before and after. The sign repeats the colour. */
export function ChangeRow(props: {
  effect: "more" | "less" | "different";
  /** Word for the effect, for screen readers. */
  word: string;
  name: ReactNode;
  children: ReactNode;
}) {
  const [Icon, tone] = SIGNS[props.effect];
  return (
    <li>
      <span className={tone === undefined ? "sign" : `sign ${tone}`}>
        <Icon />
        <span className="visually-hidden">{props.word}</span>
      </span>
      <span>{props.name}</span>
      {props.children}
    </li>
  );
}
