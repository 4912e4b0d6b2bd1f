import { useState } from "react";
import { useSearchParams } from "react-router";
import type { Contract, Subscription } from "../answers.ts";
import { path } from "../api.ts";
import { useWithBlocks } from "../blocks.ts";
import { countedLimits, explainAll, type UsageById, usageById } from "../explain.ts";
import { AsOfChoice, useMoment } from "../parts/as-of.tsx";
import { Explanation } from "../parts/explanation.tsx";
import { NoPricing } from "../parts/no-pricing.tsx";
import { Check, Field, Form, Select } from "../design/field.tsx";
import { Empty, Failed, Page, Section, Skeleton } from "../design/page.tsx";
import { NOTHING, SubscriptionEditor } from "../parts/subscription-editor.tsx";
import { useAsk } from "../queries.ts";
import { usePricings } from "../pricings.ts";
import { useHere } from "../here.tsx";
import { formatName } from "../format.ts";
import { texts } from "../texts.ts";
import { findUnlock } from "../unlock.ts";

const t = texts.playground;

export function PlaygroundPage() {
  const [search, setSearch] = useSearchParams();
  const user = search.get("user") ?? "";
  const isInvented = search.get("subject") === "invented";
  const [typed, setTyped] = useState(user);
  const { base } = useHere();
  const at = useMoment();
  const contract = useAsk<Contract>(isInvented || user === "" ? undefined : base + path`/contracts/${user}`, { at });
  const current = useWithBlocks(base, contract.data);
  return (
    <Page title={t.title} lead={t.lead}>
      <Form className="fields" onSubmit={() => setSearch({ user: typed, ...(at === undefined ? {} : { at }) })}>
        <Select
          label={t.subject}
          value={isInvented ? "invented" : "user"}
          onChange={(subject) => setSearch(subject === "invented" ? { subject } : {})}
          options={[
            ["user", t.subjects.user],
            ["invented", t.subjects.invented],
          ]}
        />
        {isInvented ? null : (
          <>
            <Field label={t.user} value={typed} onChange={setTyped} required />
            <button type="submit" className="b primary">
              {t.ask}
            </button>
          </>
        )}
      </Form>
      {isInvented || user === "" ? null : <AsOfChoice asOf={contract.data?.asOf} />}
      {isInvented ? <Invented /> : null}
      <Failed error={contract.error} />
      {contract.isLoading ? <Skeleton lines={8} /> : null}
      {!isInvented && current !== undefined ? (
        <Results subscription={current} usage={usageById(current)} user={user} />
      ) : null}
    </Page>
  );
}

/** Evaluates an invented subscription and usage. */
function Invented() {
  const [subscription, setSubscription] = useState<Subscription>(NOTHING);
  const [usage, setUsage] = useState<UsageById>(new Map());
  const { pricingOf } = usePricings(Object.entries(subscription.contractedServices));
  return (
    <>
      <Section title={t.subjects.invented}>
        <SubscriptionEditor value={subscription} onChange={setSubscription} />
        <div className="fields">
          {countedLimits(subscription, pricingOf).map((id) => (
            <Field
              key={id}
              label={t.usageOf(id)}
              type="number"
              min={0}
              value={usage.get(id) ?? 0}
              onChange={(text) => setUsage(new Map([...usage, [id, Number(text)]]))}
            />
          ))}
        </div>
      </Section>
      <Results subscription={subscription} usage={usage} user={undefined} />
    </>
  );
}

/** Lists every feature with its result, and explains the selected one. */
function Results(props: { subscription: Subscription; usage: UsageById; user: string | undefined }) {
  const [search, setSearch] = useSearchParams();
  const [isServer, setIsServer] = useState(false);
  const contracted = Object.entries(props.subscription.contractedServices);
  const { pricingOf, failureOf } = usePricings(contracted);
  const explained = explainAll(props.subscription, pricingOf, props.usage, { server: isServer });
  const chosen = explained.find(({ id }) => id === search.get("feature")) ?? explained[0];
  const choose = (feature: string) =>
    setSearch(
      (before) => {
        before.set("feature", feature);
        return before;
      },
      { replace: true },
    );
  if (contracted.length === 0) return <Empty>{t.chooseService}</Empty>;
  if (chosen === undefined) {
    const lost = contracted.find(([service, version]) => failureOf(service, version) !== undefined);
    if (lost === undefined) return <Skeleton lines={8} />;
    const [service, version] = lost;
    return <NoPricing failure={failureOf(service, version)} service={service} version={version} />;
  }
  return (
    <div className="columns answer">
      <Section title={t.featuresTitle}>
        <Check label={t.server} checked={isServer} onChange={setIsServer} />
        <ul className="feature-list">
          {explained.map(({ id, name, result }) => (
            <li key={id}>
              <button
                type="button"
                className="feature-choice"
                aria-pressed={id === chosen.id}
                title={id}
                onClick={() => choose(id)}
              >
                <b className="strong">{formatName(name)}</b>
                <span className={result.eval ? "good" : "faint"}>{result.eval ? t.on : t.off}</span>
              </button>
            </li>
          ))}
        </ul>
      </Section>
      <Explanation
        key={chosen.id}
        explained={chosen}
        user={props.user}
        isServer={isServer}
        unlock={
          chosen.result.eval || chosen.result.error !== null || chosen.expression === undefined
            ? undefined
            : findUnlock(chosen, { ...props, pricingOf, isServer })
        }
      />
    </div>
  );
}
