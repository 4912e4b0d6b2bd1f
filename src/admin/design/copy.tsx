import { Check, Copy, X } from "lucide-react";
import { useState } from "react";
import { texts } from "../texts.ts";

const ICONS = { copy: Copy, copied: Check, notCopied: X };

/** Copies a text. `state` tells the outcome for two seconds after. */
function useCopy(text: string) {
  const [state, setState] = useState<keyof typeof ICONS>("copy");
  const copy = async () => {
    setState((await writeClipboard(text)) ? "copied" : "notCopied");
    setTimeout(() => setState("copy"), 2000);
  };
  return { state, Icon: ICONS[state], copy: () => void copy() };
}

/** Copies a text and tells the outcome for two seconds. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const { state, Icon, copy } = useCopy(text);
  const caption = texts.common[state];
  return (
    <button
      type="button"
      className="b small"
      aria-label={label === undefined ? undefined : `${caption}: ${label}`}
      onClick={copy}
    >
      <Icon />
      {caption}
    </button>
  );
}

/** An identifier; a click copies it. */
export function Id({ id, text = id }: { id: string; text?: string }) {
  const { state, Icon, copy } = useCopy(id);
  return (
    <button type="button" className="id" title={id} aria-label={`${texts.common[state]}: ${id}`} onClick={copy}>
      {text}
      <Icon />
    </button>
  );
}

/** Copies a text, and tells whether it could. navigator.clipboard exists on https and localhost only, and a browser may deny it. */
async function writeClipboard(text: string): Promise<boolean> {
  const clipboard: Clipboard | undefined = navigator.clipboard;
  if (clipboard === undefined) return copySelection(text);
  return clipboard.writeText(text).then(
    () => true,
    () => copySelection(text),
  );
}

function copySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  const focused = document.activeElement;
  // An open dialog makes everything outside of it inert.
  (focused?.closest("dialog") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy") && document.activeElement === area;
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}

/** A code sample with a copy button. */
export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <figure className="code">
      <header>
        <figcaption>{label}</figcaption>
        <CopyButton text={text} label={label} />
      </header>
      <pre tabIndex={0} aria-label={label}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
