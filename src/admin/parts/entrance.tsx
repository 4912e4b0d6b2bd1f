import type { ReactNode } from "react";
import { texts } from "../texts.ts";
import { Page } from "./page.tsx";
import { ThemeChoice } from "./theme.tsx";

/** Frame of the pages for signed-out visitors. */
export function Entrance(props: { title: string; lead: string; children: ReactNode }) {
  return (
    <div className="entrance">
      <header className="top">
        <span className="brand">{texts.shell.product}</span>
        <span className="grow" />
        <ThemeChoice />
      </header>
      <main className="card narrow">
        <Page title={props.title} lead={props.lead}>
          {props.children}
        </Page>
      </main>
    </div>
  );
}
