import type { Contract, Override } from "../answers.ts";
import { call, path } from "../api.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";

const t = texts.terms;

/** The element that an override is set on. */
export type Element = Pick<Override, "service" | "kind" | "name">;

/** Body of the call that sets an override. */
type Change = Pick<Override, "mode" | "value" | "reason"> & { from?: string | undefined; until?: string | undefined };

/** The input of a change: without a body, the override is removed. */
interface Input {
  element: Element;
  body: Change | undefined;
}

const bodyOf = ({ mode, value, reason, from, until }: Override): Change => ({
  mode,
  value,
  reason,
  from,
  ...(until === null ? {} : { until }),
});

/** Sets or removes overrides of one contract. The message offers the true inverse. */
export function useTerms(contract: Pick<Contract, "userContact" | "overrides">, after?: () => void) {
  const { base, may } = useHere();
  const { userId } = contract.userContact;
  const placeOf = ({ service, kind, name }: Element) => path`/contracts/${userId}/overrides/${service}/${kind}/${name}`;
  const any = placeOf({ service: "x", kind: "features", name: "x" });
  const mayRemove = may("DELETE", any);
  const change = useChange({
    change: ({ element, body }: Input) =>
      body === undefined ? call("DELETE", base + placeOf(element)) : call("PUT", base + placeOf(element), { body }),
    touches: () => [`${base}/contracts`, `${base}/overrides`],
    done: (_, { body }) => (body === undefined ? t.removed : t.saved(nameOf(contract))),
    undo: (_, { element }) => {
      const before = contract.overrides?.find((each) => isSame(each, element));
      if (before !== undefined) return { element, body: bodyOf(before) };
      return mayRemove ? { element, body: undefined } : undefined;
    },
    after: () => after?.(),
  });
  return { change, maySet: may("PUT", any), mayRemove };
}

const isSame = (one: Element, other: Element): boolean =>
  one.service === other.service && one.kind === other.kind && one.name === other.name;
