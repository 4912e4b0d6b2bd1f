import { type ReactNode, useEffect, useState } from "react";
import { total } from "../../core/exact.ts";
import { isBound, UNLIMITED } from "../../core/pricing/model.ts";
import type { Balance } from "../answers.ts";
import { Meter, NEAR } from "../design/meter.tsx";
import { Tag } from "../design/table.tsx";
import { formatLocalDay, formatDistance, formatMoment, formatName, formatNumber, formatValue } from "../format.ts";
import type { Usage } from "../pricing.ts";
import { texts } from "../texts.ts";

const t = texts.contract;
const { credits } = texts;
const TICK_MS = 30_000;

/** Returns the used share of a limit; undefined for limits without a number. */
function shareOf(amount: number, allowed: Usage["allowed"]): number | undefined {
  if (typeof allowed !== "number" || allowed >= UNLIMITED) return undefined;
  return allowed === 0 ? 1 : amount / allowed;
}

/** Shows a limit's usage with its figures and its reset. */
export function UsageBar({ usage, isNamed = true }: { usage: Usage; isNamed?: boolean }) {
  const share = shareOf(usage.consumed, usage.allowed);
  const held = usage.held > 0 ? shareOf(usage.held, usage.allowed) : undefined;
  const over = typeof usage.allowed === "number" ? usage.consumed - usage.allowed : 0;
  const now = useNow();
  return (
    <div className="meter-block">
      {isNamed ? (
        <span className="row between">
          <span className="strong" title={`${usage.service}-${usage.limit}`}>
            {formatName(usage.limit)}
          </span>
          {share === undefined || share < NEAR ? null : (
            <Tag tone={share >= 1 ? "bad" : "warn"}>{share >= 1 ? t.over : t.near}</Tag>
          )}
        </span>
      ) : null}
      {share === undefined ? null : (
        <Meter
          label={formatName(usage.limit)}
          share={share}
          held={held ?? 0}
          extra={shareOf(total(partsOf(usage).map(({ remaining }) => remaining)), usage.allowed) ?? 0}
        />
      )}
      <span className="meter-figures">
        <span>
          {share === undefined
            ? t.usedUnlimited(formatNumber(usage.consumed))
            : t.used(formatNumber(usage.consumed), formatValue(usage.allowed))}
          {share !== undefined && over > 0 ? `, ${t.overBy(formatNumber(over))}` : null}
          {usage.held > 0 ? `, ${t.alsoHeld(formatNumber(usage.held))}` : null}
        </span>
        {usage.resetsAt === undefined ? (
          <span>{t.neverResets}</span>
        ) : (
          <time dateTime={usage.resetsAt} title={formatMoment(usage.resetsAt)}>
            {t.resets(formatDistance(usage.resetsAt, now))}
          </time>
        )}
      </span>
      {share === undefined ? null : <Parts usage={usage} />}
    </div>
  );
}

type OpenBlock = Balance["blocks"][number];

const partsOf = ({ balance }: Usage): readonly OpenBlock[] => balance?.blocks ?? [];

/** Says what a limit is made of: plan, what blocks gave in this period, what they have left, and what is held. */
function Parts({ usage }: { usage: Usage }) {
  const { balance, held } = usage;
  if (balance === undefined || !isBound(balance.granted) || typeof usage.allowed !== "number") return null;
  const blocks = partsOf(usage);
  const given = total([usage.allowed, -balance.granted, ...blocks.map(({ remaining }) => -remaining)]);
  // A limit that is full with holds may have what ended blocks keep for them, which is not used yet.
  const isFull = held > 0 && total([usage.consumed, held]) >= usage.allowed;
  const drawn = isFull ? Math.min(given, Math.max(0, total([usage.consumed, -balance.granted]))) : given;
  if (blocks.length === 0 && drawn <= 0) return null;
  return (
    <ul className="meter-parts" aria-label={credits.parts(formatName(usage.limit))}>
      <Part look="grant">{credits.ofPlan(formatNumber(balance.granted))}</Part>
      {drawn > 0 ? <Part look="f1">{credits.drawn(formatNumber(drawn))}</Part> : null}
      {blocks.map(({ id, remaining, expiresAt, origin }) => (
        <Part key={id} look="f2" title={expiresAt === null ? undefined : formatMoment(expiresAt)}>
          {credits.left(formatNumber(remaining), credits.origins[origin])},{" "}
          {expiresAt === null ? credits.noEnd : credits.until(formatLocalDay(expiresAt))}
        </Part>
      ))}
      {held > 0 ? <Part look="held">{t.alsoHeld(formatNumber(held))}</Part> : null}
    </ul>
  );
}

function Part(props: { look: string; title?: string | undefined; children: ReactNode }) {
  return (
    <li title={props.title}>
      <span className={`sw ${props.look}`} />
      <span>{props.children}</span>
    </li>
  );
}

/** Returns the current time, updated every 30 seconds. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
