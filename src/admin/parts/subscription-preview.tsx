import { ArrowRight, Check, TriangleAlert } from "lucide-react";
import type { Subscription } from "../answers.ts";
import { ChangeRow, Delta } from "../design/change.tsx";
import { Skeleton } from "../design/page.tsx";
import { Tag } from "../design/table.tsx";
import { type Difference, differencesBetween } from "../differences.ts";
import { formatName, formatNumber, formatValue } from "../format.ts";
import { type Choice, choiceOf, given, usageOf } from "../pricing.ts";
import { type PriceMove, priceMove } from "../prices.ts";
import { usePricings } from "../pricings.ts";
import { texts } from "../texts.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import { isBound } from "../../core/pricing/model.ts";

const t = texts.novation;

/** Effect of a change of one subscription. */
export interface Outcome {
  changes: (Difference & { service: string })[];
  /** One price a service, because services may have different currencies. */
  prices: (PriceMove & { service: string })[];
  /** Limits that the usage is above afterwards. */
  over: { limit: string; consumed: number; allowed: number }[];
}

/** Computes the outcome of a change with the server's own engine. Undefined while a pricing is loading. */
export function useOutcome(
  before: Subscription & Partial<Pick<Parameters<typeof usageOf>[0], "usageLevels">>,
  after: Subscription,
): Outcome | undefined {
  const both = [...Object.entries(before.contractedServices), ...Object.entries(after.contractedServices)];
  const { pricingOf } = usePricings(both);
  if (!both.every(([service, version]) => pricingOf(service, version) !== undefined)) return undefined;
  const of = (
    subscription: Subscription,
    service: string,
  ): { pricing: CompiledPricing; choice: Choice } | undefined => {
    const pricing = pricingOf(service, subscription.contractedServices[service] ?? "");
    // A change of plan keeps the overrides.
    const choice = choiceOf({ ...subscription, ...given("overrides", before.overrides) }, service);
    return pricing === undefined ? undefined : { pricing, choice };
  };
  const services = [...new Set(both.map(([service]) => service))];
  const levels = before.usageLevels ?? {};
  const kept = { ...after, ...given("overrides", before.overrides), ...given("balances", before.balances) };
  const used = usageOf({ ...kept, usageLevels: levels } as Parameters<typeof usageOf>[0], pricingOf);
  return {
    changes: services.flatMap((service) =>
      differencesBetween(of(before, service), of(after, service)).map((difference) => ({ ...difference, service })),
    ),
    prices: services.map((service) => ({ service, ...priceMove(of(before, service), of(after, service)) })),
    over: used.flatMap(({ limit, consumed, held, allowed }) =>
      isBound(allowed) && consumed + held > allowed ? [{ limit, consumed: consumed + held, allowed }] : [],
    ),
  };
}

/** Shows price, gains and losses of a change, and the usage that would be above a limit. */
export function OutcomeView({ outcome, name }: { outcome: Outcome | undefined; name: string }) {
  if (outcome === undefined) return <Skeleton lines={3} />;
  const { changes, prices, over } = outcome;
  const isSame = changes.length === 0 && prices.every(({ effect }) => effect === "same");
  const losses = changes.filter(({ effect }) => effect === "less").length;
  return (
    <div className="stack wide" aria-live="polite">
      <h3>{t.gains}</h3>
      {prices.map((price) => (
        <PriceView key={price.service} price={price} isNamed={prices.length > 1} />
      ))}
      {isSame ? <p className="soft">{t.nothing}</p> : null}
      <ChangeRows changes={changes} />
      {over.map(({ limit, consumed, allowed }) => (
        <p key={limit} className="note warn">
          <TriangleAlert />
          <span>{t.overAfter(formatName(limit), formatNumber(consumed), formatNumber(allowed))}</span>
        </p>
      ))}
      {losses === 0 && !isSame ? (
        <ul className="assure">
          <li>
            <Check />
            {t.losesNothing(name)}
          </li>
        </ul>
      ) : null}
    </div>
  );
}

function PriceView({ price, isNamed }: { price: PriceMove & { service: string }; isNamed: boolean }) {
  if (price.effect === "same") {
    return (
      <p className="soft">
        {isNamed ? `${price.service}: ` : ""}
        {t.samePrice(price.after)}
      </p>
    );
  }
  return (
    <div>
      {isNamed ? <p className="strong">{price.service}</p> : null}
      <div className="price">
        <div>
          <span className="small soft">{t.now}</span>
          <b>{price.before}</b>
        </div>
        <ArrowRight />
        <div>
          <span className="small soft">{t.after}</span>
          <b>{price.after}</b>
        </div>
        {price.change === undefined ? null : (
          <span className="per">
            <Tag tone={price.effect === "more" ? "warn" : "good"}>{price.change}</Tag>
          </span>
        )}
      </div>
    </div>
  );
}

/** Lists differences; the sign repeats the colour. */
export function ChangeRows({ changes }: { changes: readonly (Difference & { service?: string })[] }) {
  if (changes.length === 0) return null;
  return (
    <ul className="diff" aria-label={t.gains}>
      {changes.map(({ service, name, kind, before, after, effect }) => {
        const [was, is] = [formatValue(before ?? undefined), formatValue(after ?? undefined)];
        return (
          <ChangeRow
            key={`${service} ${kind} ${name}`}
            effect={effect}
            word={t.effect[effect]}
            name={
              <b className="strong" title={service === undefined ? name : `${service}-${name}`}>
                {formatName(name)}
              </b>
            }
          >
            {was === is ? (
              <span className="small soft">{t.conditions[effect]}</span>
            ) : (
              <Delta
                before={was}
                after={is}
                {...(effect === "different" ? {} : { tone: effect === "more" ? "good" : "bad" })}
              />
            )}
          </ChangeRow>
        );
      })}
    </ul>
  );
}
