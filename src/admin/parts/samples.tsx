import { useState } from "react";
import { API_URL } from "../api.ts";
import { useServices } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Snippet } from "../design/copy.tsx";
import { Check } from "../design/field.tsx";

const t = texts.keys;
const PLACEHOLDER = "YOUR_KEY";

/** Samples of a program's first calls. The key stays a placeholder until it is revealed. */
export function Samples() {
  const { keyFor } = useHere();
  const services = useServices();
  const own = keyFor("POST", "/features/ada")?.key;
  const [isShown, setIsShown] = useState(false);
  const key = isShown && own !== undefined ? own : PLACEHOLDER;
  const feature = `${services.data?.[0]?.name.toLowerCase() ?? "tasker"}-board`;
  return (
    <>
      {own === undefined ? null : <Check label={t.fillIn} checked={isShown} onChange={setIsShown} />}
      <div className="stack wide">
        <Snippet label={t.curl} text={`curl -X POST ${API_URL}/features/ada -H 'x-api-key: ${key}'`} />
        <Snippet label={t.sdk} text={sdkSample(key, feature)} />
        <Snippet label={t.react} text={reactSample(feature)} />
      </div>
    </>
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
