import type { UseMutationResult } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useEffect, useId, useRef, useState, type ReactNode, type SyntheticEvent } from "react";
import { texts } from "../texts.ts";
import { Form } from "./field.tsx";
import { GuardedButton } from "./guarded-button.tsx";
import { Failed } from "./page.tsx";

/** Opens the element as a modal dialog: the browser traps and restores the focus. */
function useModal(onClose: () => void) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return {
    ref: element,
    onCancel: (event: SyntheticEvent) => {
      // React passes on the event of a dialog that is inside this one.
      if (event.target !== event.currentTarget) return;
      event.preventDefault();
      onClose();
    },
  };
}

/** A native modal dialog; Escape closes it. */
export function Dialog(props: { title: string; onClose: () => void; children: ReactNode }) {
  const id = useId();
  const modal = useModal(props.onClose);
  return (
    <dialog className="dialog" aria-labelledby={id} {...modal}>
      <header className="row between">
        <h2 id={id}>{props.title}</h2>
        <CloseButton onClose={props.onClose} />
      </header>
      {props.children}
    </dialog>
  );
}

function CloseButton({ onClose }: { onClose: () => void }) {
  return (
    <button type="button" className="b plain icon small" aria-label={texts.common.close} onClick={onClose}>
      <X />
    </button>
  );
}

/** A panel at the side for changing one thing. Its footer says in words what will be true. */
export function Sheet(props: {
  title: string;
  /** The thing that is changed. */
  subject?: ReactNode;
  onClose: () => void;
  /** Something was chosen or entered. Escape then asks before it closes the sheet. */
  isChanged?: boolean;
  /** Consequences beside the choices; they make the sheet wide. */
  outcome?: ReactNode;
  footer: ReactNode;
  children: ReactNode;
}) {
  const id = useId();
  const [isAsking, setIsAsking] = useState(false);
  const modal = useModal(() => (props.isChanged === true ? setIsAsking(true) : props.onClose()));
  const isWide = props.outcome !== undefined;
  return (
    <dialog className={isWide ? "sheet wide" : "sheet"} aria-labelledby={id} {...modal}>
      <header>
        <div>
          <h2 id={id}>{props.title}</h2>
          {props.subject === undefined ? null : <p className="small soft">{props.subject}</p>}
        </div>
        <CloseButton onClose={props.onClose} />
      </header>
      {isWide ? (
        <div className="body two">
          <div className="stack wide">{props.children}</div>
          <div className="stack wide outcome">{props.outcome}</div>
        </div>
      ) : (
        <div className="body">{props.children}</div>
      )}
      <footer>{props.footer}</footer>
      {isAsking ? (
        <Dialog title={texts.common.discardTitle} onClose={() => setIsAsking(false)}>
          <div className="actions end">
            <button type="button" className="b" onClick={() => setIsAsking(false)}>
              {texts.common.keepEditing}
            </button>
            <button type="button" className="b danger" onClick={props.onClose}>
              {texts.common.discard}
            </button>
          </div>
        </Dialog>
      ) : null}
    </dialog>
  );
}

/**
 * Confirms an irreversible action. The user types `name`; without `name` a click suffices. `missing` closes the button
 * and says which other input is incomplete.
 */
export function Confirm(props: {
  title: string;
  action: string;
  /** Label of the safe button, which says what stays. */
  keep?: string;
  name?: string;
  missing?: string | undefined;
  change: UseMutationResult<unknown, Error, undefined>;
  onClose: () => void;
  children: ReactNode;
}) {
  const { change } = props;
  const [typed, setTyped] = useState("");
  const id = useId();
  const untyped = props.name === undefined || typed === props.name ? undefined : texts.common.nameFirst;
  const reason = props.missing ?? untyped;
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <Form
        onSubmit={() => {
          if (reason === undefined && !change.isPending) change.mutate(undefined);
        }}
      >
        <div className="stack">{props.children}</div>
        {props.name === undefined ? null : (
          <div className="field">
            <label className="label" htmlFor={id}>
              {texts.common.typeToConfirm(props.name)}
            </label>
            <span className="in">
              <input id={id} value={typed} autoComplete="off" onChange={(event) => setTyped(event.target.value)} />
            </span>
          </div>
        )}
        <Failed error={change.error} />
        <div className="actions end">
          <button type="button" className="b" onClick={props.onClose}>
            {props.keep ?? texts.common.cancel}
          </button>
          <GuardedButton className="b danger" reason={reason} isBusy={change.isPending}>
            {props.action}
          </GuardedButton>
        </div>
      </Form>
    </Dialog>
  );
}
