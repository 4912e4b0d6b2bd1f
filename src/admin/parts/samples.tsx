import { API_URL } from "../api.ts";
import { useServices } from "../services.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";
import { Snippet } from "./copy.tsx";

const t = texts.keys;

/** Samples of a program's first calls, with a real key where the user sees one. */
export function Samples() {
  const { keyFor } = useHere();
  const services = useServices();
  const key = keyFor("POST", "/features/ada")?.key ?? "org_…";
  const feature = `${services.data?.[0]?.name.toLowerCase() ?? "tasker"}-board`;
  return (
    <div className="columns">
      <Snippet label={t.curl} text={`curl -X POST ${API_URL}/features/ada -H 'x-api-key: ${key}'`} />
      <Snippet label={t.sdk} text={sdkSample(key, feature)} />
      <Snippet label={t.react} text={reactSample(feature)} />
    </div>
  );
}

const sdkSample = (key: string, feature: string): string => `const answer = await fetch(
  "${API_URL}/features/ada/${feature}",
  { method: "POST", headers: { "x-api-key": "${key}" } },
);
const { eval: isOn } = await answer.json();`;

const reactSample = (feature: string): string => `import { Default, Feature, On } from "faregate/react";

<Feature id="${feature}">
  <On><NewTask /></On>
  <Default>You have used all of it.</Default>
</Feature>`;
