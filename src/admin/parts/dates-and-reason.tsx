import { Field } from "../design/field.tsx";

interface DatesAndReasonDraft {
  from: string;
  until: string;
  reason: string;
}

/** Fields of a change that holds between two dates for a reason. An empty date is none. */
export function DatesAndReason<Draft extends DatesAndReasonDraft>({
  draft,
  labels,
  onChange,
}: {
  draft: Draft;
  labels: Readonly<Record<"from" | "fromHint" | "until" | "untilHint" | "reason" | "reasonHint", string>>;
  onChange: (draft: Draft) => void;
}) {
  return (
    <>
      <div className="fields">
        <Field
          label={labels.from}
          hint={labels.fromHint}
          type="date"
          value={draft.from}
          onChange={(from) => onChange({ ...draft, from })}
        />
        <Field
          label={labels.until}
          hint={labels.untilHint}
          type="date"
          value={draft.until}
          onChange={(until) => onChange({ ...draft, until })}
        />
      </div>
      <Field
        label={labels.reason}
        hint={labels.reasonHint}
        value={draft.reason}
        onChange={(reason) => onChange({ ...draft, reason })}
        required
      />
    </>
  );
}
