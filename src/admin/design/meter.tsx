/** A bar for a share of a limit. The figures stand beside it. */
export function Meter({ label, share }: { label: string; share: number }) {
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
    </div>
  );
}

/** Used share of a limit from which the console warns. */
export const NEAR = 0.8;
