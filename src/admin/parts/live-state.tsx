import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { Note } from "../design/page.tsx";
import { useStream } from "../stream.tsx";
import { texts } from "../texts.ts";

/** Time without a connection after which the bar says so. */
const RECONNECTING_MS = 3000;
/** Time without a connection after which the page counts as outdated. */
const LOST_MS = 60_000;

/** Returns for how long no changes have arrived, updated every second. */
function useLostMs(): number {
  const isLive = useStream().state === "live";
  const [lostForMs, setLostForMs] = useState(0);
  useEffect(() => {
    if (isLive) return setLostForMs(0);
    const since = Date.now();
    const timer = setInterval(() => setLostForMs(Date.now() - since), 1000);
    return () => clearInterval(timer);
  }, [isLive]);
  return lostForMs;
}

/** Shows in the bar of every page of an organization whether changes arrive by themselves. */
export function LiveState() {
  const lostForMs = useLostMs();
  const t = texts.shell.stream;
  const [word, tone] =
    lostForMs < RECONNECTING_MS ? [t.live, ""] : lostForMs < LOST_MS ? [t.connecting, " warn"] : [t.off, " bad"];
  return (
    <span className={`live${tone}`} role="status">
      {word}
    </span>
  );
}

/** Says on top of the page that the server is away. Disappears by itself. */
export function ConnectionBanner() {
  return useLostMs() < RECONNECTING_MS ? null : (
    <Note tone="warn" icon={WifiOff} role="alert">
      {texts.shell.lost}
    </Note>
  );
}
