import { useEffect, type ReactNode } from "react";
import { texts } from "../texts.ts";
import { Mark } from "./mark.tsx";
import { arrival } from "./page.tsx";

const t = texts.entrance;

/** Frame of the pages for signed-out visitors. */
export function Entrance(props: { title: string; lead: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${props.title} · ${texts.shell.product}`;
    // The next page is not the first of this document: its heading takes the focus that this form loses.
    arrival.isFirst = false;
  }, [props.title]);
  return (
    <div className="entrance">
      <main className="signin">
        <div className="row">
          <Mark />
          <b className="strong">{texts.shell.product}</b>
        </div>
        <div>
          <h1>{props.title}</h1>
          <p className="soft">{props.lead}</p>
        </div>
        {props.children}
      </main>
      <div className="scene not-phone" aria-hidden="true">
        <Mark className="paddles" />
        <div className="gates">
          {t.answers.map(([question, answer, reason]) => (
            <div key={question} className="gate">
              <span>{question}</span>
              <b className={answer === texts.common.yes ? "good" : "bad"}>{answer}</b>
              <small>{reason}</small>
            </div>
          ))}
        </div>
        <p>{t.promise}</p>
      </div>
    </div>
  );
}
