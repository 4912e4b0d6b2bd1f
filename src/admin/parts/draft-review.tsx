import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useState } from "react";
import type { Diff, UploadedService } from "../answers.ts";
import { call, path } from "../api.ts";
import { type DraftReview, reviewDraft, type Verdict } from "../draft-review.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Failed, Section } from "../design/page.tsx";
import { Tag } from "../design/table.tsx";
import { readText } from "./file-drop.tsx";

const t = texts.upload;
const PAUSE_MS = 250;
const TONES = { error: "bad", warning: "warn", info: "plain" } as const;

interface Checked {
  text: string;
  expectations: string | undefined;
  verdict: Verdict;
}

/** Reviews a draft after a debounce. The last verdict stays until the next one; `isCurrent` says whose it is. */
export function useVerdict(
  text: string,
  expectations: string | undefined,
): { verdict: Verdict | undefined; isCurrent: boolean } {
  const [checked, setChecked] = useState<Checked>();
  useEffect(() => {
    if (text.trim() === "") {
      setChecked(undefined);
      return undefined;
    }
    let isOutdated = false;
    const timer = setTimeout(async () => {
      const verdict = await reviewDraft({ text, expectations }, () => isOutdated);
      if (!isOutdated && verdict !== undefined) setChecked({ text, expectations, verdict });
    }, PAUSE_MS);
    return () => {
      isOutdated = true;
      clearTimeout(timer);
    };
  }, [text, expectations]);
  return {
    verdict: checked?.verdict,
    isCurrent: checked?.text === text && checked.expectations === expectations,
  };
}

/** Compares the draft with the newest active version of its service, if it has one. Stores nothing. */
export function useComparison(service: string | undefined, isCurrent: boolean, text: string) {
  const { base } = useHere();
  const to = base + path`/services/${service ?? ""}/diff`;
  const isWanted = service !== undefined && isCurrent;
  const { data, error, isPending } = useQuery({
    queryKey: [to, text],
    queryFn: ({ signal }) => {
      const body = new FormData();
      body.append("pricing", new Blob([text], { type: "application/yaml" }), "pricing.yml");
      return call<Diff & { from: { version: string } }>("POST", to, { body, signal });
    },
    enabled: isWanted,
    gcTime: 0,
  });
  return { data: isWanted ? data : undefined, error: isWanted ? error : null, isPending: isWanted && isPending };
}

type Listed = UploadedService["warnings"][number];

/** Lists findings with their lines. With `onLine` each line is a button. */
export function Findings(props: { findings: readonly Listed[]; isComplete: boolean; onLine?: (line: number) => void }) {
  const { findings, isComplete, onLine } = props;
  return (
    <>
      <ol className="problems">
        {findings.map(({ severity, path: place, line, message }, index) => (
          <li key={index}>
            {onLine === undefined ? (
              t.line(line)
            ) : (
              <button type="button" className="b small" onClick={() => onLine(line)}>
                {t.goTo(line)}
              </button>
            )}{" "}
            <Tag tone={TONES[severity]}>{t.severity[severity]}</Tag> {message} <code>{place}</code>
          </li>
        ))}
      </ol>
      {isComplete ? null : <p className="hint">{t.notAllFound}</p>}
    </>
  );
}

/** Shows what lint and the expectations say about a draft. */
export function DraftFindings({ review, onLine }: { review: DraftReview; onLine: (line: number) => void }) {
  const { warnings, isComplete, expectations } = review;
  if (warnings.length === 0 && isComplete && expectations === undefined) return null;
  return (
    <Section title={t.beforeSaving} lead={t.beforeSavingLead}>
      {expectations === undefined ? null : "met" in expectations ? (
        <p>{t.met(expectations.met)}</p>
      ) : (
        <>
          <p>
            <Tag tone="bad">{t.notMet}</Tag> {expectations.message}
          </p>
          <ul className="problems">
            {expectations.problems.map(({ line, message }, index) => (
              <li key={index}>{t.inExpectations(line, message)}</li>
            ))}
          </ul>
        </>
      )}
      <Findings findings={warnings} isComplete={isComplete} onLine={onLine} />
    </Section>
  );
}

interface ExpectationsText {
  name: string;
  text: string;
}

/** Picks the file of expectations that the draft must meet. */
export function ExpectationsFile(props: {
  file: ExpectationsText | undefined;
  onChange: (file: ExpectationsText | undefined) => void;
}) {
  const id = useId();
  const { file, onChange } = props;
  const [error, setError] = useState<Error | null>(null);
  const take = async (chosen: File | undefined) => {
    if (chosen === undefined) return;
    const read = await readText(chosen);
    setError(typeof read === "string" ? null : read);
    if (typeof read === "string") onChange({ name: chosen.name, text: read });
  };
  return (
    <div className="row wrap">
      <Failed error={error} />
      <label className="label" htmlFor={id}>
        {t.expectations}
      </label>
      <label className="b small" htmlFor={id}>
        {t.chooseExpectations}
      </label>
      <input
        id={id}
        className="visually-hidden"
        type="file"
        accept=".yml,.yaml,text/yaml,application/yaml"
        onChange={(event) => {
          void take(event.target.files?.[0]);
          event.target.value = "";
        }}
      />
      {file === undefined ? null : (
        <>
          <code>{file.name}</code>
          <button type="button" className="b small" onClick={() => onChange(undefined)}>
            {t.removeExpectations}
          </button>
        </>
      )}
    </div>
  );
}
