/**
 * A bar for a share of a limit, and the part that is held beside it. `extra` is the unused part at its end that lasts
 * beyond the plan. The figures stand beside the bar.
 */
export function Meter(props: { label: string; share: number; held?: number; extra?: number }) {
  const { label, share, held = 0, extra = 0 } = props;
  const tone = share >= 1 ? " bad" : share >= NEAR ? " warn" : "";
  return (
    <div
      className={`meter${tone}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.min(100, Math.floor(share * 100))}
    >
      <i style={{ width: `${Math.min(share, 1) * 100}%` }} />
      {extra > 0 ? (
        <i className="extra" style={{ width: `${Math.min(extra, Math.max(0, 1 - share - held)) * 100}%` }} />
      ) : null}
      {held > 0 ? <i className="held" style={{ width: `${Math.min(held, Math.max(0, 1 - share)) * 100}%` }} /> : null}
    </div>
  );
}

/** Used share of a limit from which the console warns. */
export const NEAR = 0.8;
