import { useState } from "react";
import { texts } from "../texts.ts";

/** Copies a text and confirms it for two seconds. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await writeClipboard(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <button
      type="button"
      className="button small"
      aria-label={label === undefined ? undefined : `${texts.common.copy}: ${label}`}
      onClick={() => void copy()}
    >
      {done ? texts.common.copied : texts.common.copy}
    </button>
  );
}

/** navigator.clipboard exists on https and localhost only; elsewhere fall back to copying a selection. */
async function writeClipboard(text: string): Promise<void> {
  const clipboard: Clipboard | undefined = navigator.clipboard;
  if (clipboard !== undefined) return clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** A code sample with a copy button. */
export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <figure className="snippet">
      <figcaption>
        <span>{label}</span>
        <CopyButton text={text} label={label} />
      </figcaption>
      <pre tabIndex={0} aria-label={label}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
