import { Children, Fragment, isValidElement, type JSX, type ReactNode } from "react";
import type { FeatureId } from "../client/feature-id.ts";
import type { FeatureStatus } from "../client/feature-state.ts";
import { IS_DEVELOPMENT, warnOnce } from "./development.ts";
import { useFeatureStatus } from "./hooks.ts";

/** Props of a sub-component of Feature. */
export interface SlotProps {
  children?: ReactNode;
}

/** Shown when the feature is on. */
export function On({ children }: SlotProps): ReactNode {
  if (IS_DEVELOPMENT) warnOutside("On");
  return children;
}

/** Shown when the feature is off. */
export function Default({ children }: SlotProps): ReactNode {
  if (IS_DEVELOPMENT) warnOutside("Default");
  return children;
}

/** Shown while the first token loads. */
export function Loading({ children }: SlotProps): ReactNode {
  if (IS_DEVELOPMENT) warnOutside("Loading");
  return children;
}

/** Shown without an answer: no token, an expired one, or an unknown id. */
export function ErrorFallback({ children }: SlotProps): ReactNode {
  if (IS_DEVELOPMENT) warnOutside("ErrorFallback");
  return children;
}

const STATUS_OF = new Map<unknown, FeatureStatus>([
  [On, "on"],
  [Default, "off"],
  [Loading, "loading"],
  [ErrorFallback, "error"],
]);

/** Props of Feature. */
export interface FeatureProps {
  /** `{service name in lower case}-{feature name}`, matched exactly. */
  id: FeatureId;
  /** On, Default, Loading and ErrorFallback, in any order. A missing one shows nothing. */
  children?: ReactNode;
}

/**
 * Shows the sub-component that the pricing token selects, without a request. It hides content; only the back end
 * protects it. Source: contract clients §1.5 and §1.6.
 */
export function Feature({ id, children }: FeatureProps): JSX.Element {
  const status = useFeatureStatus(id);
  const slots = new Map<FeatureStatus, ReactNode>();
  collect(children, slots);
  if (IS_DEVELOPMENT && slots.size === 0) {
    warnOnce(
      "Feature has no On, Default, Loading or ErrorFallback among its children; wrapped ones are not recognised.",
    );
  }
  // Keyed, so that no state of one sub-component survives in another.
  return <Fragment key={status}>{slots.get(status)}</Fragment>;
}

Feature.On = On;
Feature.Default = Default;
Feature.Loading = Loading;
Feature.ErrorFallback = ErrorFallback;

function collect(children: ReactNode, slots: Map<FeatureStatus, ReactNode>): void {
  Children.forEach(children, (child) => {
    if (!isValidElement<SlotProps>(child)) return;
    if (child.type === Fragment) return collect(child.props.children, slots);
    const status = STATUS_OF.get(loaded(child.type));
    if (status === undefined) return;
    if (!slots.has(status)) slots.set(status, child.props.children);
    else if (IS_DEVELOPMENT) warnOnce("Feature has the same sub-component twice; only the first is shown.");
  });
}

const LAZY = Symbol.for("react.lazy");

/** A server component's `<On>` arrives wrapped as lazy. Resolving it here suspends, as rendering it would. */
function loaded(type: unknown): unknown {
  return isLazy(type) ? type._init(type._payload) : type;
}

interface Lazy {
  readonly $$typeof: symbol;
  readonly _payload: unknown;
  _init(payload: unknown): unknown;
}

/** Type guarantee: only React creates objects with this symbol, in this shape from React 17 to 19. */
function isLazy(type: unknown): type is Lazy {
  return (type as Partial<Lazy> | null)?.$$typeof === LAZY;
}

/**
 * A Feature renders the children of these components, never the components themselves. One that renders is outside a
 * Feature.
 */
function warnOutside(name: string): void {
  warnOnce(`<${name}> outside a <Feature> always shows its children and gates nothing.`);
}
