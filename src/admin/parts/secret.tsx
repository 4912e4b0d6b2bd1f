import { useState } from "react";
import { texts } from "../texts.ts";
import { CopyButton } from "./copy.tsx";

/** A key, masked until the user reveals it. Keys that the server masked stay masked. */
export function SecretText({ text, label }: { text: string; label: string }) {
  const [isShown, setIsShown] = useState(false);
  const isMasked = text.includes("*");
  const masked = `${text.slice(0, 12)}${"•".repeat(8)}`;
  return (
    <span className="secret">
      <code>{isShown ? text : masked}</code>
      {isMasked ? null : (
        <>
          <button
            type="button"
            className="button small"
            aria-label={`${isShown ? texts.common.hide : texts.common.show}: ${label}`}
            onClick={() => setIsShown(!isShown)}
          >
            {isShown ? texts.common.hide : texts.common.show}
          </button>
          <CopyButton text={text} label={label} />
        </>
      )}
    </span>
  );
}
