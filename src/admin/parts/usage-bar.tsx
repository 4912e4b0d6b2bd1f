import { useEffect, useState } from "react";
import { UNLIMITED } from "../../core/pricing/model.ts";
import { formatDistance, formatNumber, formatValue } from "../format.ts";
import type { Usage } from "../pricing.ts";
import { texts } from "../texts.ts";
import { Badge } from "./table.tsx";

const t = texts.contract;
/** From here on somebody is told that it is running out. */
export const NEAR = 0.8;
const TICK_MS = 30_000;

/** The part of a limit that is used; undefined where there is no number to reach. */
export function shareOf({ consumed, allowed }: Pick<Usage, "consumed" | "allowed">): number | undefined {
  if (typeof allowed !== "number" || allowed >= UNLIMITED) return undefined;
  return allowed === 0 ? 1 : consumed / allowed;
}

/** One limit with how much of it is used and when it begins anew, which counts down. */
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

/** The present, twice a minute. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
