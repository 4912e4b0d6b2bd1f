import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { UsageAlerts } from "../answers.ts";
import { call } from "../api.ts";
import { Dialog } from "../design/dialog.tsx";
import { Field, Form } from "../design/field.tsx";
import { Failed, Loaded, Section } from "../design/page.tsx";
import { Tag } from "../design/table.tsx";
import { formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk, useChange } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.alerts;

/** Section with the organization's usage alerts. MANAGERs and above edit them. */
export function UsageAlertsSection() {
  const { base, may } = useHere();
  const alerts = useAsk<UsageAlerts>(`${base}/usage-alerts`);
  const [isEdited, setEdited] = useState(false);
  const edit = (
    <button type="button" className="b small" onClick={() => setEdited(true)}>
      {t.edit}
    </button>
  );
  const mayEdit = alerts.data !== undefined && may("PUT", "/usage-alerts");
  return (
    <Section title={t.title} lead={t.lead} actions={mayEdit ? edit : undefined}>
      <Loaded query={alerts} lines={1}>
        {({ thresholds }) => (
          <>
            <div className="row wide wrap">
              {thresholds.map((threshold) => (
                <Tag key={threshold} tone={threshold < 100 ? "warn" : "bad"}>
                  {t.threshold(formatNumber(threshold))}
                </Tag>
              ))}
            </div>
            {isEdited ? <Edit thresholds={thresholds} onClose={() => setEdited(false)} /> : null}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function Edit({ thresholds, onClose }: { thresholds: readonly number[]; onClose: () => void }) {
  const { base } = useHere();
  const queries = useQueryClient();
  const [text, setText] = useState(thresholds.join(", "));
  const save = useChange({
    change: (next: readonly number[]) =>
      call<UsageAlerts>("PUT", `${base}/usage-alerts`, { body: { thresholds: next } }),
    touches: () => [`${base}/usage-alerts`],
    done: () => t.saved,
    undo: (_, next) => (next === thresholds ? undefined : thresholds),
    after: (answer) => {
      queries.setQueryData([`${base}/usage-alerts`, {}], answer);
      onClose();
    },
  });
  return (
    <Dialog title={t.edit} onClose={onClose}>
      <Form label={t.edit} onSubmit={() => save.mutate(text.split(",").map((each) => Number(each.trim() || "0")))}>
        <Field label={t.thresholds} hint={t.hint} value={text} onChange={setText} required />
        <Failed error={save.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={save.isPending}>
            {t.save}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
