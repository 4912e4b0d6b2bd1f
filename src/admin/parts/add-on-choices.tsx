import { Minus, Plus } from "lucide-react";
import { useId } from "react";
import { wholeConstraintsOf } from "../../core/pricing/subscription.ts";
import type { Subscription, WireAddOn, WirePricing } from "../answers.ts";
import { formatName, formatNumber, formatPrice } from "../format.ts";
import { compiledFrom } from "../pricing.ts";
import { texts } from "../texts.ts";

const t = texts.novation;

/** Chooses the add-ons of one service. Those that the chosen plan excludes are shown only while they are chosen. */
export function AddOnChoices(props: {
  value: Subscription;
  onChange: (value: Subscription) => void;
  pricing: WirePricing;
  serviceKey: string;
}) {
  const { value, onChange, pricing, serviceKey: key } = props;
  const plan = value.subscriptionPlans[key];
  const chosen = value.subscriptionAddOns[key] ?? {};
  const isOffered = (addOn: WireAddOn) =>
    chosen[addOn.name] !== undefined ||
    plan === undefined ||
    addOn.availableFor.some((each) => each.toLowerCase() === plan.toLowerCase());
  const set = (name: string, quantity: number) => {
    const { [name]: _, ...others } = chosen;
    const next = quantity === 0 || Number.isNaN(quantity) ? others : { ...others, [name]: quantity };
    const { [key]: __, ...services } = value.subscriptionAddOns;
    onChange({
      ...value,
      subscriptionAddOns: Object.keys(next).length === 0 ? services : { ...services, [key]: next },
    });
  };
  const model = compiledFrom(key, pricing).addOns;
  return Object.values(pricing.addOns)
    .filter(isOffered)
    .map((addOn) => {
      const compiled = model.get(addOn.name.toLowerCase());
      return (
        <QuantityChoice
          key={addOn.name}
          name={addOn.name}
          about={addOn.description ?? ""}
          price={formatPrice(addOn.price, pricing.currency)}
          quantity={chosen[addOn.name] ?? 0}
          bounds={
            compiled === undefined
              ? { minQuantity: 1, maxQuantity: null, quantityStep: 1 }
              : wholeConstraintsOf(compiled)
          }
          onChange={(quantity) => set(addOn.name, quantity)}
        />
      );
    });
}

/** Chooses the units of an add-on by stepping or typing. */
function QuantityChoice(props: {
  name: string;
  about: string;
  price: string;
  quantity: number;
  bounds: { minQuantity: number; maxQuantity: number | null; quantityStep: number };
  onChange: (quantity: number) => void;
}) {
  const id = useId();
  const { name, quantity, bounds, onChange } = props;
  const { minQuantity, maxQuantity, quantityStep } = bounds;
  const upper = maxQuantity ?? Number.POSITIVE_INFINITY;
  const first = Math.max(minQuantity, quantityStep);
  const fewer = quantity - quantityStep < first ? 0 : quantity - quantityStep;
  const more = quantity === 0 ? first : quantity + quantityStep;
  const facts = [
    props.about,
    t.unitPrice(props.price),
    ...(maxQuantity === null ? [] : [t.upTo(formatNumber(maxQuantity))]),
  ];
  return (
    <div className="addon">
      <span className="grow">
        <label className="strong" htmlFor={id}>
          {formatName(name)}
        </label>
        <span className="small soft block">{facts.filter(Boolean).join(", ")}</span>
      </span>
      <span className="step">
        <button
          type="button"
          aria-label={t.fewer(formatName(name))}
          disabled={quantity <= 0}
          onClick={() => onChange(fewer)}
        >
          <Minus />
        </button>
        <input
          id={id}
          inputMode="numeric"
          value={quantity}
          onChange={(event) => onChange(Number(event.target.value.replace(/\D/g, "")))}
        />
        <button
          type="button"
          aria-label={t.more(formatName(name))}
          disabled={more > upper}
          onClick={() => onChange(more)}
        >
          <Plus />
        </button>
      </span>
    </div>
  );
}
