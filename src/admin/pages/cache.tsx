import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api.ts";
import { Snippet } from "../design/copy.tsx";
import { Area, Field, Form } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Empty, Failed, Page, Section } from "../design/page.tsx";
import { useChange } from "../queries.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.cache;

export function CachePage() {
  const isAdmin = useUser().role === "ADMIN";
  return (
    <Page title={t.title} lead={t.lead}>
      {isAdmin ? (
        <div className="columns">
          <Read />
          <Write />
        </div>
      ) : (
        <p className="hint">{texts.common.askAdmin}</p>
      )}
    </Page>
  );
}

function Read() {
  const [key, setKey] = useState("");
  const read = useMutation({ mutationFn: () => call<unknown>("GET", "/cache/get", { query: { key } }) });
  return (
    <Section title={t.get}>
      <Form className="fields" onSubmit={() => read.mutate()}>
        <Field label={t.key} value={key} onChange={setKey} required />
        <button type="submit" className="b" disabled={read.isPending}>
          {t.get}
        </button>
      </Form>
      <Failed error={read.error} />
      {read.isSuccess && read.data === null ? <Empty>{t.nothing}</Empty> : null}
      {read.isSuccess && read.data !== null ? (
        <Snippet label={t.found} text={JSON.stringify(read.data, null, 2)} />
      ) : null}
    </Section>
  );
}

function Write() {
  const [key, setKey] = useState("");
  const [text, setText] = useState("");
  const [seconds, setSeconds] = useState("300");
  const value = parsed(text);
  const reason = value === undefined ? t.valueFirst : undefined;
  const write = useChange({
    change: () =>
      call("POST", "/cache/set", {
        body: { key, value: value?.json, expirationInSeconds: Number(seconds) },
      }),
    touches: () => [],
    done: () => t.stored,
  });
  return (
    <Section title={t.set}>
      <Form onSubmit={() => write.mutate(undefined)}>
        <Field label={t.key} value={key} onChange={setKey} required />
        <Area
          label={t.value}
          value={text}
          onChange={setText}
          isCode
          problem={text !== "" && value === undefined ? t.noJson : undefined}
        />
        <Field label={t.seconds} type="number" min={1} value={seconds} onChange={setSeconds} />
        <Failed error={write.error} />
        <div className="actions">
          <GuardedButton reason={reason} isBusy={write.isPending}>
            {t.set}
          </GuardedButton>
        </div>
      </Form>
    </Section>
  );
}

function parsed(text: string): { json: unknown } | undefined {
  try {
    return { json: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
