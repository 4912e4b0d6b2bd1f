import type { UseMutationResult } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { texts } from "../texts.ts";
import { Form } from "./field.tsx";
import { Failed } from "./page.tsx";

/** A native modal dialog: it traps and restores the focus, and Escape closes it. */
export function Dialog(props: { title: string; onClose: () => void; children: ReactNode }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const { onClose } = props;
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header className="dialog-head">
        <h2 id={id}>{props.title}</h2>
        <button type="button" className="button quiet" aria-label={texts.common.close} onClick={onClose}>
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}

/**
 * Confirms an irreversible action. The user types `name`; without `name` a click suffices. `isReady: false` disables
 * the button until other inputs are complete.
 */
export function Confirm(props: {
  title: string;
  action: string;
  name?: string;
  isReady?: boolean;
  change: UseMutationResult<unknown, Error, undefined>;
  onClose: () => void;
  children: ReactNode;
}) {
  const { change } = props;
  const [typed, setTyped] = useState("");
  const id = useId();
  const isReady = props.isReady !== false && (props.name === undefined || typed === props.name);
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <Form
        onSubmit={() => {
          if (isReady && !change.isPending) change.mutate(undefined);
        }}
      >
        <div className="dialog-body">{props.children}</div>
        {props.name === undefined ? null : (
          <div className="field">
            <label htmlFor={id}>{texts.common.typeToConfirm(props.name)}</label>
            <input id={id} value={typed} autoComplete="off" onChange={(event) => setTyped(event.target.value)} />
          </div>
        )}
        <Failed error={change.error} />
        <div className="actions end">
          <button type="button" className="button" onClick={props.onClose}>
            {texts.common.cancel}
          </button>
          <button type="submit" className="button danger" disabled={!isReady || change.isPending}>
            {props.action}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
