import { Check, ChevronDown, ChevronUp, Equal, Search, X } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import type { Contract, Subscription } from "../answers.ts";
import { Segment } from "../design/field.tsx";
import { NoPricing } from "./no-pricing.tsx";
import { Empty, Skeleton } from "../design/page.tsx";
import { type Explained, explainAll, reasonText, usageById } from "../explain.ts";
import { formatName, formatValue } from "../format.ts";
import { choiceOf, entitlements } from "../pricing.ts";
import { usePricings } from "../pricings.ts";
import { texts } from "../texts.ts";
import { findUnlock, subscriptionFrom } from "../unlock.ts";
import { UnlockWays } from "./unlock.tsx";

const t = texts.access;
type Shown = "all" | "on" | "off";

/** Lists what a contract's user may use, and answers why not and what would turn it on. */
export function AccessList(props: {
  contract: Contract;
  name: string;
  /** Undefined where plans cannot be changed. */
  onChangePlan: ((preset: Subscription) => void) | undefined;
}) {
  const { contract, name } = props;
  const [text, setText] = useState("");
  const [shown, setShown] = useState<Shown>("all");
  const contracted = Object.entries(contract.contractedServices);
  const { pricingOf, failureOf } = usePricings(contracted);
  const all = explainAll(contract, pricingOf, usageById(contract), { server: false });
  const counts = {
    on: all.filter(({ result }) => result.eval).length,
    off: all.filter((each) => isOff(each)).length,
  };
  const rows = all.filter(
    (each) =>
      (shown === "all" || (shown === "on" ? each.result.eval : isOff(each))) &&
      `${each.id} ${formatName(each.name)} ${each.description ?? ""}`.toLowerCase().includes(text.toLowerCase()),
  );
  // Denied features come first: they are why somebody looks here.
  rows.sort((one, other) => Number(isOff(other)) - Number(isOff(one)));
  const missing = contracted.find(([service, version]) => pricingOf(service, version) === undefined);
  return (
    <section className="section" aria-label={t.title}>
      <div className="finder">
        <span className="in">
          <Search />
          <input
            type="search"
            placeholder={t.find(name)}
            aria-label={t.findLabel}
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
        </span>
        <Segment
          label={t.show}
          value={shown}
          onChange={setShown}
          options={[
            ["all", t.all],
            ["on", t.on(counts.on)],
            ["off", t.off(counts.off)],
          ]}
        />
      </div>
      {missing === undefined ? null : failureOf(...missing) === undefined ? (
        <Skeleton lines={6} />
      ) : (
        <NoPricing failure={failureOf(...missing)} service={missing[0]} version={missing[1]} />
      )}
      {rows.length === 0 && missing === undefined ? <Empty>{t.nothing}</Empty> : null}
      <ul className="ents">
        {rows.map((each) => (
          <Row key={each.id} {...props} explained={each} />
        ))}
      </ul>
    </section>
  );
}

/** Features without an expression are neither on nor off: they only have a value. */
const isOff = ({ result, expression }: Explained): boolean => !result.eval && expression !== undefined;

function Row(props: {
  contract: Contract;
  explained: Explained;
  onChangePlan: ((preset: Subscription) => void) | undefined;
}) {
  const { contract, explained } = props;
  const [isOpen, setIsOpen] = useState(false);
  const { result, expression, name } = explained;
  const isPlain = expression === undefined;
  const [Icon, tone] = isPlain ? [Equal, ""] : result.eval ? [Check, "good"] : [X, isOpen ? "bad" : ""];
  const Chevron = isOpen ? ChevronUp : ChevronDown;
  return (
    <li className={isOpen ? "ent open" : "ent"}>
      <button type="button" className="ent-head" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
        <span className={`sign ${tone}`}>
          <Icon />
        </span>
        <span className="grow">
          <b className="strong" title={explained.id}>
            {formatName(name)}
          </b>{" "}
          <span className="small faint not-phone">{explained.description}</span>
        </span>
        <span className="small soft">{isPlain || result.eval ? <SourceOf {...props} /> : whyOff(explained)}</span>
        <span className={isPlain ? "state" : result.eval ? "state good" : isOpen ? "state bad" : "state faint"}>
          {isPlain ? formatValue(explained.value) : result.eval ? texts.playground.on : texts.playground.off}
        </span>
        <Chevron />
      </button>
      {isOpen ? <Answer {...props} contract={contract} /> : null}
    </li>
  );
}

function whyOff({ reasons, plan }: Explained): string {
  const [first] = reasons;
  if (first?.kind === "notGranted") return t.notIn(plan ?? texts.novation.noPlan);
  return first?.kind === "atLimit" ? texts.contract.over : "";
}

/** Names the plan or add-on that gives a feature. */
function SourceOf({ contract, explained }: { contract: Contract; explained: Explained }) {
  const { pricingOf } = usePricings(Object.entries(contract.contractedServices));
  const pricing = pricingOf(explained.service, contract.contractedServices[explained.service] ?? "");
  if (pricing === undefined) return null;
  const from = entitlements(pricing, choiceOf(contract, explained.service)).find(
    ({ kind, name }) => kind === "feature" && name === explained.name,
  )?.from;
  if (from?.source === "override") return <>{t.byOverride}</>;
  return <>{from === undefined || from.source === "default" ? t.byDefault : from.names.map(sourceName).join(", ")}</>;
}

/** Plans are shown as written; add-ons, whose keys are program names, as titles. */
const sourceName = (name: string): string => (/^[A-Z0-9_ ]+$/.test(name) ? name : formatName(name));

function Answer(props: {
  contract: Contract;
  explained: Explained;
  onChangePlan: ((preset: Subscription) => void) | undefined;
}) {
  const { contract, explained, onChangePlan } = props;
  const { pricingOf } = usePricings(Object.entries(contract.contractedServices));
  const found = isOff(explained)
    ? findUnlock(explained, { subscription: contract, pricingOf, usage: usageById(contract), isServer: false })
    : undefined;
  const { userId } = contract.userContact;
  const at = contract.asOf?.at;
  const question = new URLSearchParams({ user: userId, feature: explained.id, ...(at === undefined ? {} : { at }) });
  return (
    <div className="answer">
      {explained.reasons.map((reason) => (
        <p key={JSON.stringify(reason)}>{reasonText(reason, explained.plan)}</p>
      ))}
      {found === undefined ? null : (
        <UnlockWays
          {...found}
          onChoose={
            onChangePlan === undefined
              ? undefined
              : (purchase) => onChangePlan(subscriptionFrom(contract, explained.service, purchase.target))
          }
        />
      )}
      <Link className="link small" to={`../playground?${question.toString()}`}>
        {t.how}
      </Link>
    </div>
  );
}
