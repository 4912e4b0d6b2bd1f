import { Link } from "react-router";
import { texts } from "../texts.ts";
import { Section } from "../design/page.tsx";
import { Samples } from "./samples.tsx";

const t = texts.overview;

/** Onboarding steps for an empty organization. */
export function FirstSteps() {
  return (
    <Section title={t.startTitle}>
      <ol className="steps">
        <li>
          <Link to="upload">{t.steps.upload}</Link>
          <p>{t.steps.uploadText}</p>
        </li>
        <li>
          <Link to="keys">{t.steps.key}</Link>
          <p>{t.steps.keyText}</p>
        </li>
        <li>
          <Link to="new-contract">{t.steps.contract}</Link>
          <p>{t.steps.contractText}</p>
        </li>
        <li>
          <Link to="playground">{t.steps.ask}</Link>
          <p>{t.steps.askText}</p>
          <Samples />
        </li>
      </ol>
    </Section>
  );
}
