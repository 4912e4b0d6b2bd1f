/** A bar for a share of a limit, and the part that is held beside it. The figures stand beside the bar. */
export function Meter({ label, share, held = 0 }: { label: string; share: number; held?: number }) {
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
      {held > 0 ? <i className="held" style={{ width: `${Math.min(held, Math.max(0, 1 - share)) * 100}%` }} /> : null}
    </div>
  );
}

/** Used share of a limit from which the console warns. */
export const NEAR = 0.8;
