import { useEffect, useState } from "react";
import { useStream } from "../stream.tsx";
import { texts } from "../texts.ts";

/** Time without a connection after which the bar says so. */
const RECONNECTING_MS = 3000;
/** Time without a connection after which the page counts as outdated. */
const LOST_MS = 60_000;

/** Shows in the bar of every page of an organization whether changes arrive by themselves. */
export function LiveState() {
  const { state } = useStream();
  const isLive = state === "live";
  const [lostForMs, setLostForMs] = useState(0);
  useEffect(() => {
    if (isLive) return setLostForMs(0);
    const since = Date.now();
    const timer = setInterval(() => setLostForMs(Date.now() - since), 1000);
    return () => clearInterval(timer);
  }, [isLive]);
  const t = texts.shell.stream;
  const [word, tone] =
    isLive || lostForMs < RECONNECTING_MS
      ? [t.live, ""]
      : lostForMs < LOST_MS
        ? [t.connecting, " warn"]
        : [t.off, " bad"];
  return (
    <span className={`live${tone}`} role="status">
      {word}
    </span>
  );
}
