import { useState } from "react";
import { useParams, useSearchParams } from "react-router";
import type { Offer } from "../../client/offer.ts";
import type { PublicOffer } from "../answers.ts";
import { addressOf, call, path } from "../api.ts";
import { Snippet } from "../design/copy.tsx";
import { Check, Field, Form } from "../design/field.tsx";
import { Failed, Loaded, Page, Section } from "../design/page.tsx";
import { useAsk, useChange } from "../queries.ts";
import { serviceKey } from "../services.ts";
import { useHere } from "../here.tsx";
import { useServiceCrumbs } from "../parts/crumbs.ts";
import { OfferPreview } from "../parts/offer-preview.tsx";
import { texts } from "../texts.ts";

const t = texts.pricePage;

/** Shows the offer of a service as customers see it, and publishes it. */
export function PricePage() {
  const { base } = useHere();
  const { service = "" } = useParams();
  const [search, setSearch] = useSearchParams();
  const userId = search.get("user") ?? "";
  const [typed, setTyped] = useState(userId);
  const offer = useAsk<Offer>(base + path`/services/${service}/offer`, userId === "" ? {} : { userId });
  return (
    <Page title={t.title(service)} lead={t.lead} crumbs={useServiceCrumbs(service)}>
      <Form className="fields" onSubmit={() => setSearch(typed === "" ? {} : { user: typed })}>
        <Field label={t.user} hint={t.userHint} value={typed} onChange={setTyped} />
        <button type="submit" className="b">
          {t.show}
        </button>
      </Form>
      <Loaded query={offer} lines={10}>
        {(data) => <OfferPreview offer={data} />}
      </Loaded>
      <Publishing service={service} />
    </Page>
  );
}

function Publishing({ service }: { service: string }) {
  const { base, may, organization } = useHere();
  const published = useAsk<PublicOffer>(`${base}/public-offer`);
  const key = serviceKey(service);
  const save = useChange({
    change: (services: readonly string[]) => call<PublicOffer>("PUT", `${base}/public-offer`, { body: { services } }),
    touches: () => [`${base}/public-offer`],
    done: ({ services }) => (services.some((name) => serviceKey(name) === key) ? t.published : t.unpublished),
  });
  const address = addressOf(path`/public-offers/${organization.id}/${key}`);
  return (
    <Section title={t.publishing} lead={t.publishingLead}>
      <Loaded query={published}>
        {({ services }) => {
          const isPublished = services.some((name) => serviceKey(name) === key);
          const others = services.filter((name) => serviceKey(name) !== key);
          return (
            <>
              {may("PUT", "/public-offer") ? (
                <Check
                  label={t.publish}
                  checked={isPublished}
                  onChange={(wanted) => save.mutate(wanted ? [...others, service] : others)}
                />
              ) : (
                <p>{isPublished ? t.published : t.unpublished}</p>
              )}
              <Failed error={save.error} />
              {isPublished ? <Snippet label={t.address} text={address} /> : null}
            </>
          );
        }}
      </Loaded>
      <Snippet label={t.code} text={codeFor(location.origin, organization.id, key)} />
    </Section>
  );
}

const codeFor = (
  url: string,
  organizationId: string,
  service: string,
): string => `import { Offer, publicOffer } from "faregate/react";

const source = publicOffer({ url: "${url}", organizationId: "${organizationId}", service: "${service}" });

export function Prices() {
  return <Offer service="${service}" source={source} hrefOf={({ plan }) => \`/buy/\${plan}\`} />;
}`;
