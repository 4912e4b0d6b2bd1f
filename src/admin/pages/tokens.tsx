import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { PricingTokenPayload } from "../../core/pricing-token.ts";
import { scopesFor, useActing } from "../acting.ts";
import { call, path } from "../api.ts";
import { formatDistance, formatMoment, formatValue } from "../format.ts";
import { Snippet } from "../design/copy.tsx";
import { Area, Field, Form } from "../design/field.tsx";
import { Failed, Page, Section } from "../design/page.tsx";
import { Tag, Table } from "../design/table.tsx";
import { useNow } from "../parts/usage-bar.tsx";
import { useUser } from "../session.tsx";
import { decodeToken } from "../token.ts";
import { texts } from "../texts.ts";

const t = texts.tokens;

export function TokensPage() {
  const [token, setToken] = useState("");
  const payload = token.trim() === "" ? undefined : decodeToken(token);
  return (
    <Page title={t.title} lead={t.lead}>
      <Area
        label={t.token}
        value={token}
        onChange={setToken}
        isCode
        problem={token.trim() !== "" && payload === undefined ? t.broken : undefined}
      />
      {payload === undefined ? (
        <Issue onToken={setToken} />
      ) : (
        <Decoded key={token} token={token.trim()} payload={payload} />
      )}
    </Page>
  );
}

function Decoded({ token, payload }: { token: string; payload: PricingTokenPayload }) {
  const now = useNow();
  const { apiKey } = useUser();
  const verify = useMutation({
    mutationFn: () =>
      call<{ valid: boolean; reason: string | null }>("POST", "/pricing-tokens/verify", {
        key: apiKey,
        body: { token },
      }),
  });
  const isExpired = payload.exp * 1000 <= now;
  const at = (seconds: number) => new Date(seconds * 1000).toISOString();
  return (
    <>
      <Section
        title={payload.sub}
        actions={
          <button type="button" className="b" disabled={verify.isPending} onClick={() => verify.mutate()}>
            {t.verify}
          </button>
        }
      >
        <dl className="pairs">
          <dt>{t.issued}</dt>
          <dd>{formatMoment(at(payload.iat))}</dd>
          <dt>{t.expires}</dt>
          <dd>
            {formatMoment(at(payload.exp))} ({formatDistance(at(payload.exp), now)}){" "}
            <Tag tone={isExpired ? "bad" : "good"}>{isExpired ? t.expired : t.valid}</Tag>
          </dd>
          <dt>{t.signature}</dt>
          <dd>
            <span role="status">
              {verify.data === undefined ? "–" : null}
              {verify.data?.valid === true ? <Tag tone="good">{t.verified}</Tag> : null}
              {verify.data?.valid === false ? (
                <>
                  <Tag tone="bad">{t.refused}</Tag> {verify.data.reason}
                </>
              ) : null}
            </span>
          </dd>
        </dl>
        <Failed error={verify.error} />
      </Section>
      <Section title={t.features}>
        <Table
          label={t.features}
          head={[texts.playground.feature, texts.playground.result, texts.playground.used, texts.playground.reason]}
        >
          {Object.entries(payload.features).map(([id, feature]) => (
            <tr key={id}>
              <th scope="row">
                <code>{id}</code>
              </th>
              <td className={feature.eval ? "good" : "faint"}>
                {feature.eval ? texts.playground.on : texts.playground.off}
              </td>
              <td>
                {feature.used === null
                  ? "–"
                  : texts.common.of(formatValue(feature.used), formatValue(feature.limit ?? undefined))}
              </td>
              <td>{feature.error?.message ?? ""}</td>
            </tr>
          ))}
        </Table>
      </Section>
      <Section title={t.contexts}>
        <Snippet
          label={t.contexts}
          text={JSON.stringify(
            { pricingContext: payload.pricingContext, subscriptionContext: payload.subscriptionContext },
            null,
            2,
          )}
        />
      </Section>
    </>
  );
}

/** Issues a pricing token for a user, for inspection. */
function Issue({ onToken }: { onToken: (token: string) => void }) {
  const [userId, setUserId] = useState("");
  const to = path`/features/${userId}/pricing-token`;
  const sample = "/features/x/pricing-token";
  const acting = useActing("POST", sample);
  const issue = useMutation({
    mutationFn: () => call<{ pricingToken: string }>("POST", to, { key: acting?.key }),
    onSuccess: ({ pricingToken }) => onToken(pricingToken),
  });
  return (
    <Section title={t.getTitle} lead={t.getLead}>
      {acting === undefined ? (
        <p className="note warn">{texts.playground.needsKey(scopesFor("POST", sample))}</p>
      ) : (
        <Form className="fields" onSubmit={() => issue.mutate()}>
          <Field label={texts.playground.user} value={userId} onChange={setUserId} required />
          <button type="submit" className="b" disabled={issue.isPending}>
            {t.get}
          </button>
        </Form>
      )}
      <Failed error={issue.error} />
    </Section>
  );
}
