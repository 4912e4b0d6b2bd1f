import { Fragment, useState } from "react";
import { useSearchParams } from "react-router";
import { BILLING_PROVIDERS, type BillingProvider } from "../../core/billing/message.ts";
import type { BillingConnection } from "../answers.ts";
import { useConnection } from "../billing.ts";
import { Field, Form, Segment } from "../design/field.tsx";
import { Failed, Loaded, Note, Page, Section } from "../design/page.tsx";
import { useHere } from "../here.tsx";
import { BillingMessages } from "../parts/billing-messages.tsx";
import { ConnectionSection } from "../parts/billing-connection.tsx";
import { PriceMap } from "../parts/billing-prices.tsx";
import { useAsk } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.billing;

/** Connections to payment providers: address, mapping and messages. */
export function BillingPage() {
  const { base } = useHere();
  const list = useAsk<BillingConnection[]>(`${base}/billing`);
  const [search, setSearch] = useSearchParams();
  const chosen = BILLING_PROVIDERS.find((each) => each === search.get("provider"));
  const provider = chosen ?? list.data?.[0]?.provider ?? "stripe";
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="row">
        <Segment
          label={t.provider}
          value={provider}
          onChange={(each) => setSearch({ provider: each })}
          options={BILLING_PROVIDERS.map((each) => [each, t.providers[each]])}
        />
      </div>
      <Loaded query={list} lines={8}>
        {(all) => {
          const connection = all.find((each) => each.provider === provider);
          return connection === undefined ? (
            <Connect key={provider} provider={provider} />
          ) : (
            <Fragment key={provider}>
              <ConnectionSection connection={connection} />
              <PriceMap connection={connection} />
              <BillingMessages provider={provider} />
            </Fragment>
          );
        }}
      </Loaded>
    </Page>
  );
}

const SECRET_BYTES = 24;

/** A secret that nobody knows, until the provider has shown its own. */
const placeholderSecret = (): string =>
  `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(SECRET_BYTES))))}`;

function Connect({ provider }: { provider: BillingProvider }) {
  const { may } = useHere();
  const [secret, setSecret] = useState("");
  const name = t.providers[provider];
  const connect = useConnection(provider, { done: () => t.connected(name) });
  if (!may("PUT", `/billing/${provider}`)) return <Note>{t.connectLater}</Note>;
  return (
    <Section title={t.connectTitle(name)} lead={t.connectLead}>
      <Form onSubmit={() => connect.mutate({ secret: secret === "" ? placeholderSecret() : secret, prices: {} })}>
        <Field label={t.secret} hint={t.secretLater} type="password" value={secret} onChange={setSecret} />
        <Failed error={connect.error} />
        <div className="actions">
          <button type="submit" className="b primary" disabled={connect.isPending}>
            {t.connect}
          </button>
        </div>
      </Form>
    </Section>
  );
}
