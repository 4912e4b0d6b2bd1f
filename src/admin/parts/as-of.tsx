import { useState } from "react";
import { useSearchParams } from "react-router";
import type { AsOf } from "../answers.ts";
import { formatMoment } from "../format.ts";
import { texts } from "../texts.ts";
import { Field, Form } from "../design/field.tsx";

const t = texts.asOf;
const MINUTE_MS = 60_000;

/** Formats a moment for `<input type="datetime-local">`: local time zone, to the second. */
function localOf(iso: string): string {
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 19);
}

/** Reads the past moment from the page's URL; undefined means now. */
export function useMoment(): string | undefined {
  const [search] = useSearchParams();
  return search.get("at") ?? undefined;
}

/** Picks a past moment for the page, and shows which contract state applied then. */
export function AsOfChoice({ asOf }: { asOf: AsOf | undefined }) {
  const at = useMoment();
  const [, setSearch] = useSearchParams();
  const [typed, setTyped] = useState(at === undefined ? "" : localOf(at));
  const show = (moment: string) => {
    setTyped(moment);
    setSearch((before) => {
      before.delete("at");
      if (moment !== "") before.set("at", new Date(moment).toISOString());
      return before;
    });
  };
  return (
    <>
      <Form className="fields as-of" label={t.title} onSubmit={() => show(typed)}>
        <Field label={t.moment} type="datetime-local" step={1} value={typed} onChange={setTyped} required />
        <button type="submit" className="b">
          {t.show}
        </button>
        {at === undefined ? null : (
          <button type="button" className="b" onClick={() => show("")}>
            {t.now}
          </button>
        )}
      </Form>
      {asOf === undefined ? null : (
        <p className="note warn" role="status">
          {t.state(formatMoment(asOf.at), formatMoment(asOf.since), t.causes[asOf.cause])}{" "}
          {asOf.until === null ? t.lasts : t.until(formatMoment(asOf.until))}
        </p>
      )}
    </>
  );
}
