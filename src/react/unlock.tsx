import type { ReactNode } from "react";
import type { FeatureId } from "../client/feature-id.ts";
import type { Change, Unlock } from "../client/offer.ts";
import { useAsked } from "./asking.ts";
import { useFeatureStatus } from "./hooks.ts";
import { AskedStatus, configurationText } from "./offer.tsx";
import { Choice, type ChoiceProps } from "./offer-table.tsx";

/** Options of useUnlock. */
export interface UnlockOptions {
  /** Amounts per `{service}-{limit}` that the purchase must leave room for. */
  amounts?: Readonly<Record<string, number>> | undefined;
  /** Loads the answer from the application's own back end. */
  source?: (() => Promise<Unlock>) | undefined;
}

/** State of an unlock. */
export type UnlockState = Readonly<{
  /** `idle`: the feature is not off. */
  status: "idle" | "loading" | "ready" | "error";
  unlock: Unlock | null;
  error: Error | null;
  /** Asks again. */
  reload(): void;
}>;

/**
 * Returns the smallest purchase that turns a feature on for the current user. Asks only while the feature is off, with
 * the provider's key or the source.
 */
export function useUnlock(feature: FeatureId, options: UnlockOptions = {}): UnlockState {
  const { amounts, source } = options;
  const { answer, ...rest } = useAsked<Unlock, "idle">({
    hook: "useUnlock",
    key: [feature, amounts],
    isIdle: useFeatureStatus(feature) !== "off",
    source,
    ask: (requests, client, userId = "") => requests.askForUnlock(client, userId, feature, amounts),
  });
  return { ...rest, unlock: answer };
}

/**
 * Texts of the default markup; each replaces an English one. `title` names the section. Functions get the configuration
 * as text, `available` also its price.
 */
export type UnlockLabels = Partial<
  Record<"title" | "loading" | "error" | "nothing", string> &
    Record<"choose" | "contact", (configuration: string) => string> &
    Record<"gain" | "loss", (change: Change) => string> & {
      available: (configuration: string, price: string) => string;
    }
>;

/** Props of UnlockPrompt. */
export interface UnlockPromptProps extends UnlockOptions, ChoiceProps<Unlock> {
  feature: FeatureId;
  labels?: UnlockLabels | undefined;
  /** Renders the answer instead of the default markup. `select` calls `onSelect` with the target. */
  children?: (unlock: Unlock, select: () => void) => ReactNode;
}

/** Formats a price as the service does. */
function priceText({ then, currency, unit }: NonNullable<Unlock["price"]>): string {
  if (then === null) return "a price on request";
  const digits = { minimumFractionDigits: then % 1 && 2, maximumFractionDigits: 6 };
  const per = unit?.replace(/^\//, "");
  return `${then.toLocaleString("en", digits)} ${currency}${per ? ` / ${per}` : ""}`;
}

function changeText({ id, before, after }: Change, service: string | null): string {
  const name = id.slice((service ?? "").length + 1);
  return typeof before === "boolean" || before === after ? name : `${name}: ${before ?? "–"} → ${after ?? "–"}`;
}

/** Offers the smallest purchase that turns a feature on. Shows nothing while the feature is on. */
export function UnlockPrompt(props: UnlockPromptProps): ReactNode {
  const { feature, labels = {}, onSelect, hrefOf, children, ...options } = props;
  const { status, unlock } = useUnlock(feature, options);
  if (status === "idle" || unlock?.reason === "ALREADY_ON") return null;
  if (unlock === null) return <AskedStatus status={status} labels={labels} />;
  const { target, price, service, contact } = unlock;
  if (children) return children(unlock, () => target && onSelect?.(target, unlock));
  if (target === null || price === null) return <p>{labels.nothing ?? "Not part of any plan on offer."}</p>;
  const wanted = configurationText(target);
  const changes = (list: readonly Change[], kind: string, label?: (change: Change) => string) =>
    list[0] && (
      <ul data-kind={kind}>
        {list.map((change) => (
          <li key={change.id}>{label?.(change) ?? changeText(change, service)}</li>
        ))}
      </ul>
    );
  const verb = contact
    ? (labels.contact?.(wanted) ?? `Contact us about ${wanted}`)
    : (labels.choose?.(wanted) ?? `Choose ${wanted}`);
  return (
    <section aria-label={labels.title ?? "Unlock"}>
      <p>{labels.available?.(wanted, priceText(price)) ?? `Available with ${wanted} for ${priceText(price)}.`}</p>
      {changes(unlock.gains, "gains", labels.gain)}
      {changes(unlock.losses, "losses", labels.loss)}
      {(onSelect || hrefOf) && (
        <Choice to={target} item={unlock} by={props}>
          {verb}
        </Choice>
      )}
    </section>
  );
}
