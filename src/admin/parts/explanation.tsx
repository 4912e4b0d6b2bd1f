import { useMutation } from "@tanstack/react-query";
import { Check, X } from "lucide-react";
import { useState } from "react";
import { scopesFor, useActing } from "../acting.ts";
import type { FoundPurchases } from "../../core/offers/unlock.ts";
import type { FeatureAnswer } from "../answers.ts";
import { addressOf, call, path } from "../api.ts";
import { type Explained, reasonText, verdictOf } from "../explain.ts";
import { formatName, formatValue } from "../format.ts";
import { texts } from "../texts.ts";
import { useMoment } from "./as-of.tsx";
import { Snippet } from "../design/copy.tsx";
import { Field } from "../design/field.tsx";
import { Failed, Note, Section } from "../design/page.tsx";
import { UnlockChoices } from "./unlock.tsx";

const t = texts.playground;

/** Explains one feature's result, with a dry run on the server and code samples. */
export function Explanation(props: {
  explained: Explained;
  user: string | undefined;
  isServer: boolean;
  /** Purchases that turn a denied feature on; undefined if there is nothing to unlock. */
  unlock: FoundPurchases | undefined;
}) {
  const { explained, user, unlock } = props;
  const { result } = explained;
  return (
    <Section title={formatName(explained.name)} lead={<code>{explained.id}</code>}>
      <div className={result.eval ? "verdict" : "verdict no"}>
        <span className="big">{result.eval ? <Check /> : <X />}</span>
        <div className="grow">
          <p className="say">{verdictOf(explained)}</p>
          {explained.reasons.slice(1).map((reason) => (
            <p key={JSON.stringify(reason)} className="soft">
              {reasonText(reason, explained.plan)}
            </p>
          ))}
        </div>
      </div>
      <dl className="pairs">
        {Object.entries(result.used ?? {}).map(([limit, used]) => (
          <Fact key={limit} name={limit}>
            {texts.common.of(formatValue(used), formatValue(result.limit?.[limit] ?? undefined))}
          </Fact>
        ))}
        {explained.expression === undefined ? null : (
          <>
            <Fact name={t.expression}>
              <code>{explained.expression}</code>
            </Fact>
            <Fact name={t.filledIn}>
              <code>{explained.filledIn}</code>
            </Fact>
          </>
        )}
      </dl>
      {unlock === undefined ? null : (
        <>
          <h3>{texts.unlock.title}</h3>
          <UnlockChoices {...unlock} />
        </>
      )}
      {user === undefined ? null : <AskServer {...props} user={user} />}
    </Section>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** Sends a dry run: the server evaluates this consumption without counting it. */
function AskServer({ explained, user, isServer }: { explained: Explained; user: string; isServer: boolean }) {
  const to = path`/features/${user}/${explained.id}`;
  const acting = useActing("POST", to);
  const at = useMoment();
  const limits = Object.keys(explained.result.used ?? {});
  const [amounts, setAmounts] = useState<Record<string, string>>({});
  const filled = Object.entries(amounts).filter(([, amount]) => amount !== "");
  const body =
    filled.length === 0
      ? undefined
      : Object.fromEntries(limits.map((limit) => [limit, Number(amounts[limit] === "" ? 0 : (amounts[limit] ?? 0))]));
  const query = { at, ...(isServer ? { server: true } : {}), ...(body === undefined ? {} : { dryRun: true }) };
  const ask = useMutation({
    mutationFn: () =>
      call<FeatureAnswer>("POST", to, { key: acting?.key, query: { ...query, dryRun: true, explain: true }, body }),
  });
  if (acting === undefined) return <Note tone="warn">{t.needsKey(scopesFor("POST", to))}</Note>;
  return (
    <>
      <div className="fields">
        {limits.map((limit) => (
          <Field
            key={limit}
            label={t.consume(limit)}
            type="number"
            min={0}
            value={amounts[limit] ?? ""}
            onChange={(amount) => setAmounts({ ...amounts, [limit]: amount })}
          />
        ))}
        <button type="button" className="b" disabled={ask.isPending} onClick={() => ask.mutate()}>
          {t.dryRun}
        </button>
      </div>
      <Failed error={ask.error} />
      {ask.data === undefined ? null : <Snippet label={t.dryRunResult} text={JSON.stringify(ask.data, null, 2)} />}
      <h3>{t.copyTitle}</h3>
      <Snippet label={"curl"} text={curlOf(addressOf(to, query), body)} />
      <Snippet label={texts.keys.sdk} text={codeOf(addressOf(to, query), body)} />
    </>
  );
}

const curlOf = (url: string, body: object | undefined): string =>
  [
    `curl -X POST '${url}' -H "x-api-key: $ORG_KEY"`,
    ...(body === undefined ? [] : [`  -H 'content-type: application/json' -d '${JSON.stringify(body)}'`]),
  ].join(" \\\n");

const codeOf = (url: string, body: object | undefined): string => `const answer = await fetch("${url}", {
  method: "POST",
  headers: { "x-api-key": process.env.ORG_KEY, "content-type": "application/json" },${
    body === undefined ? "" : `\n  body: JSON.stringify(${JSON.stringify(body)}),`
  }
});
const { eval: isOn, error } = await answer.json();`;
