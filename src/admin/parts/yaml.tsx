import { useEffect, useRef, useState } from "react";
import type { Problem } from "../api.ts";
import { Skeleton } from "../design/page.tsx";
import type { Editor } from "./yaml-editor.ts";

/** A YAML editor or viewer with highlighting; the editor's code loads on first use. */
export function Yaml(props: {
  text: string;
  label: string;
  onChange?: (text: string) => void;
  problems?: readonly Problem[];
  /** Scrolls to a line; pass a new object to scroll there again. */
  at?: { line: number } | undefined;
}) {
  const place = useRef<HTMLDivElement>(null);
  const [editor, setEditor] = useState<Editor>();
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let opened: Editor | undefined;
    let isGone = false;
    void import("./yaml-editor.ts").then(({ openEditor }) => {
      if (isGone || place.current === null) return;
      const { text, label, onChange } = latest.current;
      opened = openEditor(place.current, {
        text,
        label,
        isReadOnly: onChange === undefined,
        onChange: (changed) => latest.current.onChange?.(changed),
      });
      setEditor(opened);
    });
    return () => {
      isGone = true;
      opened?.destroy();
    };
  }, []);
  useEffect(() => editor?.setText(props.text), [editor, props.text]);
  useEffect(() => editor?.setProblems(props.problems ?? []), [editor, props.problems]);
  useEffect(() => {
    if (props.at !== undefined) editor?.goTo(props.at.line);
  }, [editor, props.at]);
  return (
    <div className="yaml">
      {editor === undefined ? <Skeleton lines={10} /> : null}
      <div ref={place} />
    </div>
  );
}
