import { Check } from "lucide-react";
import { Link } from "react-router";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Section } from "../design/page.tsx";
import { Samples } from "./samples.tsx";

const t = texts.overview;

/** Onboarding steps until the first contract. Steps that are done carry a check mark. */
export function FirstSteps({ hasServices }: { hasServices: boolean }) {
  const { organization } = useHere();
  return (
    <Section title={t.startTitle}>
      <ol className="steps">
        <li>
          <Link to="upload">{t.steps.upload}</Link>
          {hasServices ? <Done /> : null}
          <p>{t.steps.uploadText}</p>
        </li>
        <li>
          <Link to="keys">{t.steps.key}</Link>
          {organization.apiKeys.length > 0 ? <Done /> : null}
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

const Done = () => (
  <span className="good" role="img" aria-label={t.done}>
    <Check />
  </span>
);
