import { useState } from "react";
import { texts } from "../texts.ts";
import { CopyButton } from "../design/copy.tsx";

/** A key, masked until the user reveals it. Keys that the server masked stay masked. */
export function SecretText(props: { text: string; label: string; isShown?: boolean }) {
  const { text, label } = props;
  const [isShown, setIsShown] = useState(props.isShown === true);
  const isMasked = text.includes("*");
  const masked = `${text.slice(0, 12)}${"•".repeat(8)}`;
  return (
    <span className="secret">
      <code>{isShown ? text : masked}</code>
      {isMasked ? null : (
        <>
          <button
            type="button"
            className="b small"
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
