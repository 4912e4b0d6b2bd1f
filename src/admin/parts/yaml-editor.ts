import { createEditor } from "prism-code-editor";
import { defaultKeymap, editHistory, editorCommands, setIgnoreTab } from "prism-code-editor/commands";
import "prism-code-editor/languages/yaml";
import "prism-code-editor/layout.css";
import "prism-code-editor/prism/languages/yaml";
import type { Problem } from "../api.ts";

/** A YAML editor inside a DOM element. Its dependencies are imported in this file only, so they load on first use. */
export interface Editor {
  setText(text: string): void;
  setProblems(problems: readonly Pick<Problem, "message" | "line">[]): void;
  goTo(line: number): void;
  destroy(): void;
}

/** Longer texts are shown without colours, which take time at every change. */
const COLOURED = 200_000;
const languageOf = (text: string): string => (text.length > COLOURED ? "text" : "yaml");

/** Opens an editor. Tab leaves it, so keyboard users are never trapped. */
export function openEditor(
  parent: HTMLElement,
  options: { text: string; label: string; isReadOnly: boolean; onChange: (text: string) => void },
): Editor {
  setIgnoreTab(true);
  /** Messages by line number. */
  let problems = new Map<number, string>();
  let marked: Element[] = [];
  const mark = () => {
    for (const line of marked) {
      line.classList.remove("has-problem");
      line.removeAttribute("title");
    }
    marked = [];
    for (const [number, message] of problems) {
      const line = editor.lines[number];
      if (line === undefined) continue;
      line.classList.add("has-problem");
      line.setAttribute("title", message);
      marked.push(line);
    }
  };
  const editor = createEditor(
    parent,
    {
      value: options.text,
      language: languageOf(options.text),
      readOnly: options.isReadOnly,
      class: "yaml-editor",
      onUpdate: (text) => {
        mark();
        options.onChange(text);
      },
    },
    editorCommands(defaultKeymap, []),
    editHistory(),
  );
  editor.textarea.setAttribute("aria-label", options.label);
  const show = (line: number) => {
    const top = editor.lines[line]?.offsetTop ?? 0;
    editor.container.scrollTop = top - editor.container.clientHeight / 3;
  };
  return {
    setText: (text) => {
      if (text !== editor.value) editor.setOptions({ value: text, language: languageOf(text) });
    },
    setProblems: (found) => {
      problems = new Map(found.map(({ line, message }) => [line, message]));
      mark();
      // A user who is typing keeps their place.
      const [first] = [...problems.keys()].sort((one, other) => one - other);
      if (first !== undefined && !editor.focused) show(first);
    },
    goTo: (line) => {
      const lines = editor.value.split("\n");
      const number = Math.min(Math.max(line, 1), lines.length);
      const start = lines.slice(0, number - 1).reduce((sum, each) => sum + each.length + 1, 0);
      editor.textarea.focus({ preventScroll: true });
      editor.textarea.setSelectionRange(start, start);
      editor.lines[number]?.scrollIntoView({ block: "center" });
    },
    destroy: () => editor.remove(),
  };
}
