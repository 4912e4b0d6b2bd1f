import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { texts } from "../texts.ts";

/** Copies a text. `isDone` holds for two seconds after. */
function useCopy(text: string) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await writeClipboard(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return { isDone: done, copy: () => void copy() };
}

/** Copies a text and confirms it for two seconds. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const { isDone, copy } = useCopy(text);
  const caption = isDone ? texts.common.copied : texts.common.copy;
  return (
    <button
      type="button"
      className="b small"
      aria-label={label === undefined ? undefined : `${caption}: ${label}`}
      onClick={copy}
    >
      {isDone ? <Check /> : <Copy />}
      {caption}
    </button>
  );
}

/** An identifier; a click copies it. */
export function Id({ id, text = id }: { id: string; text?: string }) {
  const { isDone, copy } = useCopy(id);
  return (
    <button type="button" className="id" title={id} aria-label={`${texts.common.copy}: ${id}`} onClick={copy}>
      {text}
      {isDone ? <Check /> : <Copy />}
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
