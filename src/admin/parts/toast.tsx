import { createContext, useCallback, useContext, useEffect, useState, type ReactNode } from "react";

const SHOWN_MS = 6000;
const TellContext = createContext<((sentence: string) => void) | undefined>(undefined);

/** Shows messages in a corner for 6 seconds each, announced to screen readers. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [said, setSaid] = useState<{ id: number; sentence: string }[]>([]);
  const tell = useCallback((sentence: string) => setSaid((before) => [...before, { id: Date.now(), sentence }]), []);
  useEffect(() => {
    if (said.length === 0) return undefined;
    const timer = setTimeout(() => setSaid((before) => before.slice(1)), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <TellContext.Provider value={tell}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {said.map(({ id, sentence }) => (
          <p key={id} className="toast">
            {sentence}
          </p>
        ))}
      </div>
    </TellContext.Provider>
  );
}

/** Returns a function that shows a message. */
export function useTell(): (sentence: string) => void {
  const tell = useContext(TellContext);
  if (tell === undefined) throw new Error("nowhere to tell");
  return tell;
}
