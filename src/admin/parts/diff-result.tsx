import { CHANGE_CLASSES, type ChangeClass, isCapped } from "../../core/change/change.ts";
import { isSameDay } from "../../core/change/diff/version-step.ts";
import type { Change, Diff } from "../answers.ts";
import { formatNumber, formatUnknown } from "../format.ts";
import { texts } from "../texts.ts";
import { nameOf } from "./group-target.tsx";
import { Section } from "../design/page.tsx";
import { Tag, Table } from "../design/table.tsx";

const t = texts.compare;
const TONES = { incompatible: "warn", narrowing: "bad", widening: "good", neutral: "plain" } as const;

/** Shows a comparison with the version `to`: verdict, gains and losses, and other changes of the file. */
export function DiffResult({ diff, to, title }: { diff: Diff; to: string; title: string }) {
  return (
    <>
      <Verdict diff={diff} to={to} title={title} />
      <Matrix changes={diff.changes.filter(({ configurations }) => configurations !== undefined)} />
      <Definitions changes={diff.changes.filter(({ configurations }) => configurations === undefined)} />
    </>
  );
}

function ClassBadge({ of }: { of: ChangeClass }) {
  return <Tag tone={TONES[of]}>{t.classes[of]}</Tag>;
}

/** Shows the class of the changes and the version number that it calls for. */
function Verdict({ diff, to, title }: { diff: Diff; to: string; title: string }) {
  const { suggestion, space, suggestedRenames = [] } = diff;
  const { step, version, sufficient } = suggestion;
  return (
    <Section title={title} actions={diff.class === null ? null : <ClassBadge of={diff.class} />}>
      {diff.class === null ? (
        <p>{t.equal}</p>
      ) : (
        <>
          <ul className="reasons">
            {CHANGE_CLASSES.filter((each) => diff.counts[each] > 0).map((each) => (
              <li key={each}>
                <Tag tone={TONES[each]}>{t.counted(formatNumber(diff.counts[each]), t.classes[each])}</Tag>{" "}
                <span className="hint">{t.classLeads[each]}</span>
              </li>
            ))}
          </ul>
          <p>
            {t.step(step, version === null || isSameDay(version, to) ? "" : version)}{" "}
            {sufficient === null ? "" : sufficient ? t.enough(to) : t.notEnough(to)}
          </p>
        </>
      )}
      {suggestedRenames.map(({ from, to: name }) => (
        <p key={from}>{t.rename(from, name)}</p>
      ))}
      <p className="hint">
        {t.compared(formatNumber(space.configurations), formatNumber(space.plans))}{" "}
        {space.complete ? "" : t.capped(space.capped.join(", "))}
      </p>
    </Section>
  );
}

function shown(change: Change): string {
  if (change.unknown === true) return t.unknown;
  const text = (value: unknown) => formatUnknown(value, isCapped(change));
  return texts.novation.was(text(change.before), text(change.after));
}

/** Describes the subject of a change. `value` and `access` are implied, so they are not named. */
function subjectOf({ name, aspect, mode, addOns }: Change): string {
  const about = aspect === "value" || aspect === "access" ? name : t.aspect(name, aspect);
  const side = mode === undefined ? "" : ` (${t.modes[mode]})`;
  return `${about}${side}${addOns === undefined ? "" : ` ${t.withAddOns(nameOf({ addOns }))}`}`;
}

/** Shows one row per changed feature or limit, one column per plan. */
function Matrix({ changes }: { changes: readonly Change[] }) {
  if (changes.length === 0) return null;
  const plans = [...new Set(changes.flatMap((change) => change.plans ?? []))];
  const columns = plans.length === 0 ? [undefined] : plans;
  const rows = new Map<string, Change[]>();
  for (const change of changes) {
    const key = `${change.subject} ${subjectOf(change)}`;
    rows.set(key, [...(rows.get(key) ?? []), change]);
  }
  return (
    <Section title={t.matrix} lead={t.matrixLead}>
      <Table label={t.matrix} head={[t.what, ...columns.map((plan) => plan ?? t.everywhere)]} isMatrix>
        {[...rows].map(([key, [first, ...others]]) =>
          first === undefined ? null : (
            <tr key={key}>
              <th scope="row">
                <code>{subjectOf(first)}</code> <span className="hint">{t.subjects[first.subject]}</span>
              </th>
              {columns.map((plan) => (
                <td key={plan ?? ""}>
                  {[first, ...others]
                    .filter((change) => plan === undefined || change.plans?.includes(plan) === true)
                    .map((change) => (
                      <div key={`${change.aspect} ${change.class} ${JSON.stringify(change.after)}`}>
                        {shown(change)} <ClassBadge of={change.class} />
                      </div>
                    ))}
                </td>
              ))}
            </tr>
          ),
        )}
      </Table>
    </Section>
  );
}

/** Lists changes of the file itself: added or removed plans and add-ons, prices, expressions. */
function Definitions({ changes }: { changes: readonly Change[] }) {
  if (changes.length === 0) return null;
  return (
    <Section title={t.definitions}>
      <Table label={t.definitions} head={[t.what, t.change, ""]}>
        {changes.map((change) => (
          <tr key={`${change.subject} ${subjectOf(change)} ${JSON.stringify(change.plans)}`}>
            <th scope="row">
              <code>{change.aspect === "presence" ? change.name : subjectOf(change)}</code>{" "}
              <span className="hint">{t.subjects[change.subject]}</span>
            </th>
            <td className="wide">
              {change.aspect === "presence" ? (change.after === true ? t.added : t.removed) : shown(change)}
            </td>
            <td>
              <ClassBadge of={change.class} />
            </td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}
