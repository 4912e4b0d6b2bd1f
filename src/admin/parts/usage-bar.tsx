import { useEffect, useState } from "react";
import { UNLIMITED } from "../../core/pricing/model.ts";
import { formatDistance, formatNumber, formatValue } from "../format.ts";
import type { Usage } from "../pricing.ts";
import { texts } from "../texts.ts";
import { Badge } from "./table.tsx";

const t = texts.contract;
/** Used share of a limit from which the console warns. */
export const NEAR = 0.8;
const TICK_MS = 30_000;

/** Returns the used share of a limit; undefined for limits without a number. */
export function shareOf({ consumed, allowed }: Pick<Usage, "consumed" | "allowed">): number | undefined {
  if (typeof allowed !== "number" || allowed >= UNLIMITED) return undefined;
  return allowed === 0 ? 1 : consumed / allowed;
}

/** Shows a limit's usage with a countdown to its reset. */
export function UsageBar({ usage }: { usage: Usage }) {
  const now = useNow();
  const share = shareOf(usage);
  const name = `${usage.service}-${usage.limit}`;
  return (
    <div className="usage">
      <span className="usage-head">
        <strong>{usage.limit}</strong> <span className="hint">{usage.service}</span>
        {share === undefined || share < NEAR ? null : (
          <Badge tone={share >= 1 ? "danger" : "warn"}>{share >= 1 ? t.over : t.near}</Badge>
        )}
      </span>
      <meter aria-label={name} min={0} max={1} high={NEAR} value={Math.min(share ?? 0, 1)} />
      <span className="usage-foot">
        <span>{t.used(formatNumber(usage.consumed), formatValue(usage.allowed))}</span>
        {usage.resetsAt === undefined ? null : (
          <time dateTime={usage.resetsAt} title={usage.resetsAt}>
            {t.resets(formatDistance(usage.resetsAt, now))}
          </time>
        )}
      </span>
    </div>
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
