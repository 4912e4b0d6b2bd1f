import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { createTokenVerifier } from "../../client/verify.ts";
import { scopesFor, useActing } from "../acting.ts";
import { API_URL, call, path } from "../api.ts";
import { formatDistance, formatMoment, formatValue } from "../format.ts";
import { Snippet } from "../design/copy.tsx";
import { Area, Field, Form, Select } from "../design/field.tsx";
import { Failed, Page, Section } from "../design/page.tsx";
import { Tag, Table } from "../design/table.tsx";
import { useHere } from "../here.tsx";
import { useNow } from "../parts/usage-bar.tsx";
import { type DecodedToken, decodeToken } from "../token.ts";
import { texts } from "../texts.ts";

const t = texts.tokens;
const JWKS_URL = new URL("../../.well-known/jwks.json", `${API_URL}/`).href;

/** Result of a verification. `reason` is a sentence, null for a valid token. */
interface Verdict {
  valid: boolean;
  reason: string | null;
}

export function TokensPage() {
  const [token, setToken] = useState("");
  const decoded = token.trim() === "" ? undefined : decodeToken(token);
  return (
    <Page title={t.title} lead={t.lead}>
      <Area
        label={t.token}
        value={token}
        onChange={setToken}
        isCode
        problem={token.trim() !== "" && decoded === undefined ? t.broken : undefined}
      />
      {decoded === undefined ? (
        <Issue onToken={setToken} />
      ) : (
        <Decoded key={token} token={token.trim()} decoded={decoded} />
      )}
    </Page>
  );
}

function Decoded({ token, decoded }: { token: string; decoded: DecodedToken }) {
  const now = useNow();
  const { organization } = useHere();
  const { algorithm, kid, payload } = decoded;
  const { iss, aud } = payload;
  const isExpired = payload.exp * 1000 <= now;
  const here = useVerdictHere(token, algorithm, isExpired);
  const server = useVerdictOfServer(token);
  const at = (seconds: number) => new Date(seconds * 1000).toISOString();
  return (
    <>
      <Section
        title={payload.sub}
        actions={
          here === undefined ? (
            <button type="button" className="b" disabled={server.isPending} onClick={() => server.mutate()}>
              {t.verify}
            </button>
          ) : null
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
          <dt>{t.issuer}</dt>
          <dd>{typeof iss === "string" ? <code>{iss}</code> : t.unnamed}</dd>
          <dt>{t.organization}</dt>
          <dd>
            {aud === organization.id ? `${organization.name} ` : null}
            {typeof aud === "string" ? <code>{aud}</code> : t.unnamed}
          </dd>
          <dt>{t.algorithm}</dt>
          <dd>
            <code>{algorithm}</code>
          </dd>
          {kid === undefined ? null : (
            <>
              <dt>{t.kid}</dt>
              <dd>
                <code>{kid}</code>
              </dd>
            </>
          )}
          <dt>{t.signature}</dt>
          <dd>
            <span role="status">
              {here === undefined ? (
                <Result verdict={server.data} valid={t.verified} refused={t.refused} />
              ) : (
                <Result verdict={here ?? undefined} valid={t.verifiedHere} refused={t.refusedHere} />
              )}
            </span>
          </dd>
        </dl>
        <Failed error={server.error} />
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

function Result({ verdict, valid, refused }: { verdict: Verdict | undefined; valid: string; refused: string }) {
  if (verdict === undefined) return "–";
  if (verdict.valid) return <Tag tone="good">{valid}</Tag>;
  return (
    <>
      <Tag tone="bad">{refused}</Tag> {verdict.reason}
    </>
  );
}

/**
 * Verifies an EdDSA token in this page, with the server's public keys. Returns null meanwhile. Returns undefined where only
 * the server can verify: other algorithms, browsers without Ed25519, and every browser on plain HTTP.
 */
function useVerdictHere(token: string, algorithm: string, isExpired: boolean): Verdict | null | undefined {
  const { organization } = useHere();
  const verifier = useMemo(
    () => createTokenVerifier({ organizationId: organization.id, jwksUrl: JWKS_URL }),
    [organization.id],
  );
  const isEdDsa = algorithm === "EdDSA";
  const { data } = useQuery({
    queryKey: ["token", token, organization.id, isExpired],
    queryFn: () => verifier.verify(token),
    enabled: isEdDsa,
  });
  if (!isEdDsa) return undefined;
  if (data === undefined) return null;
  if (data.ok) return { valid: true, reason: null };
  return data.reason === "unsupported" ? undefined : { valid: false, reason: t.reasons[data.reason] };
}

function useVerdictOfServer(token: string) {
  return useMutation({
    mutationFn: () => call<Verdict>("POST", "/pricing-tokens/verify", { body: { token } }),
  });
}

const SIGNATURES = [
  ["", t.signatureDefault],
  ["HS256", "HS256"],
  ["EdDSA", "EdDSA"],
] as const;

/** Issues a pricing token for a user, for inspection. */
function Issue({ onToken }: { onToken: (token: string) => void }) {
  const [userId, setUserId] = useState("");
  const [signature, setSignature] = useState<(typeof SIGNATURES)[number][0]>("");
  const to = path`/features/${userId}/pricing-token`;
  const sample = "/features/x/pricing-token";
  const acting = useActing("POST", sample);
  const issue = useMutation({
    mutationFn: () => call<{ pricingToken: string }>("POST", to, { key: acting?.key, query: { signature } }),
    onSuccess: ({ pricingToken }) => onToken(pricingToken),
  });
  return (
    <Section title={t.getTitle} lead={t.getLead}>
      {acting === undefined ? (
        <p className="note warn">{texts.playground.needsKey(scopesFor("POST", sample))}</p>
      ) : (
        <Form className="fields" onSubmit={() => issue.mutate()}>
          <Field label={texts.playground.user} value={userId} onChange={setUserId} required />
          <Select label={t.signature} value={signature} onChange={setSignature} options={SIGNATURES} />
          <button type="submit" className="b" disabled={issue.isPending}>
            {t.get}
          </button>
        </Form>
      )}
      <Failed error={issue.error} />
    </Section>
  );
}
