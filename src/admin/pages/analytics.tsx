import type { Week } from "../answers.ts";
import { Bars } from "../parts/bars.tsx";
import { Loaded, Page, Section } from "../design/page.tsx";
import { useAsk } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.analytics;

export function AnalyticsPage() {
  const calls = useAsk<Week>("/analytics/api-calls");
  const evaluations = useAsk<Week>("/analytics/evaluations");
  return (
    <Page title={t.title} lead={t.lead}>
      {(
        [
          [t.calls, calls],
          [t.evaluations, evaluations],
        ] as const
      ).map(([name, query]) => (
        <Section key={name} title={name}>
          <Loaded query={query} lines={6}>
            {({ labels, data }) => <Bars name={name} labels={labels} data={data} />}
          </Loaded>
        </Section>
      ))}
    </Page>
  );
}
