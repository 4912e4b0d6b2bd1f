import { type ComponentProps, lazy, Suspense } from "react";

const Replay = lazy(async () => ({ default: (await import("./replay.tsx")).Replay }));

/** Offers a replay, whose code loads after the page around it. */
export function ReplayLater(props: ComponentProps<typeof Replay>) {
  return (
    <Suspense fallback={null}>
      <Replay {...props} />
    </Suspense>
  );
}
