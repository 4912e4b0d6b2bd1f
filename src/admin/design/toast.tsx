import { createContext, useCallback, useContext, useEffect, useState, type ReactNode } from "react";
import { texts } from "../texts.ts";

const SHOWN_MS = 8000;

/** Message of a toast, with the inverse of the change where the server has one. */
export type Tell = (sentence: string, undo?: () => void) => void;

const TellContext = createContext<Tell | undefined>(undefined);

/** Shows messages in a corner for 8 seconds each, announced to screen readers. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [said, setSaid] = useState<{ id: number; sentence: string; undo: (() => void) | undefined }[]>([]);
  const tell = useCallback<Tell>(
    (sentence, undo) => setSaid((before) => [...before, { id: Date.now(), sentence, undo }]),
    [],
  );
  useEffect(() => {
    if (said.length === 0) return undefined;
    const timer = setTimeout(() => setSaid((before) => before.slice(1)), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <TellContext.Provider value={tell}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {said.map(({ id, sentence, undo }) => (
          <p key={id} className="toast">
            {sentence}
            {undo === undefined ? null : (
              <button
                type="button"
                onClick={() => {
                  setSaid((before) => before.filter((each) => each.id !== id));
                  undo();
                }}
              >
                {texts.common.undo}
              </button>
            )}
          </p>
        ))}
      </div>
    </TellContext.Provider>
  );
}

/** Returns a function that shows a message. */
export function useTell(): Tell {
  const tell = useContext(TellContext);
  if (tell === undefined) throw new Error("nowhere to tell");
  return tell;
}
