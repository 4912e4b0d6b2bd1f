import type { GateVerdict } from "../answers.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Area } from "../design/field.tsx";
import { Tag } from "../design/table.tsx";

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
            <Tag tone={passed ? "good" : "bad"}>{passed ? t.passed : t.broken}</Tag> {texts.gate.measures[rule.rule]}.{" "}
            <span className="hint">{reason}</span>
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
    <div className="note warn block-note">
      <GateResults gate={props.gate} />
      <p>{mayOverride ? t.overrideLead : t.overrideDenied}</p>
      {mayOverride ? <Area label={t.reason} rows={2} value={props.reason} onChange={props.onReason} /> : null}
    </div>
  );
}
