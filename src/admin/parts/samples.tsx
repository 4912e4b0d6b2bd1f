import { useState } from "react";
import { API_URL } from "../api.ts";
import { useServices } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Snippet } from "../design/copy.tsx";
import { Check } from "../design/field.tsx";

const t = texts.keys;
const PLACEHOLDER = "YOUR_KEY";

/** Samples of a program's calls about one user. The key stays a placeholder until it is revealed. */
export function Samples({ userId = "ada", featureId }: { userId?: string; featureId?: string | undefined }) {
  const { keyFor } = useHere();
  const services = useServices();
  const own = keyFor("POST", "/features/ada")?.key;
  const [isShown, setIsShown] = useState(false);
  const key = isShown && own !== undefined ? own : PLACEHOLDER;
  const feature = featureId ?? `${services.data?.[0]?.name.toLowerCase() ?? "tasker"}-board`;
  const user = encodeURIComponent(userId);
  return (
    <>
      {own === undefined ? null : <Check label={t.fillIn} checked={isShown} onChange={setIsShown} />}
      <div className="stack wide">
        <Snippet label={t.curl(userId)} text={`curl -X POST ${API_URL}/features/${user} -H 'x-api-key: ${key}'`} />
        <Snippet label={t.sdk} text={sdkSample(key, user, feature)} />
        <Snippet label={t.react} text={reactSample(feature)} />
      </div>
    </>
  );
}

const sdkSample = (key: string, user: string, feature: string): string => `const answer = await fetch(
  "${API_URL}/features/${user}/${feature}",
  { method: "POST", headers: { "x-api-key": "${key}" } },
);
const { eval: isOn } = await answer.json();`;

const reactSample = (feature: string): string => `import { Default, Feature, On } from "faregate/react";

<Feature id="${feature}">
  <On><NewTask /></On>
  <Default>You have used all of it.</Default>
</Feature>`;
