import type { GateVerdict } from "../answers.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";
import { Area } from "./field.tsx";
import { Badge } from "./table.tsx";

const t = texts.change;

/** Lists each rule's result with the server's reason, broken rules first. */
export function GateResults({ gate }: { gate: GateVerdict }) {
  const ordered = [...gate.rules].sort((one, other) => Number(one.passed) - Number(other.passed));
  return (
    <>
      <p>{gate.passed ? t.gateOpen : t.gateClosed}</p>
      <ul className="reasons">
        {ordered.map(({ rule, passed, reason }) => (
          <li key={JSON.stringify(rule)}>
            <Badge tone={passed ? "good" : "danger"}>{passed ? t.passed : t.broken}</Badge>{" "}
            {texts.gate.measures[rule.rule]}. <span className="hint">{reason}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Returns true for users whom the server lets override a closed gate. */
export function useMayOverride(): boolean {
  const { actor } = useHere();
  return actor === "OWNER" || actor === "PLATFORM_ADMIN";
}

/** Shows the broken rules, and a field for the override's reason to users who may override. */
export function GateOverride(props: { gate: GateVerdict; reason: string; onReason: (reason: string) => void }) {
  const mayOverride = useMayOverride();
  return (
    <div className="note warn">
      <GateResults gate={props.gate} />
      <p>{mayOverride ? t.overrideLead : t.overrideDenied}</p>
      {mayOverride ? <Area label={t.reason} rows={2} value={props.reason} onChange={props.onReason} /> : null}
    </div>
  );
}
