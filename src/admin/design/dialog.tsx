import { useQueryClient, type UseMutationResult } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useEffect, useId, useLayoutEffect, useRef, useState, type ReactNode, type SyntheticEvent } from "react";
import { texts } from "../texts.ts";
import { Form } from "./field.tsx";
import { GuardedButton } from "./guarded-button.tsx";
import { Failed } from "./page.tsx";

interface Modal {
  onClose: () => void;
  /** True while closing would discard something. Default: true once an input was edited. */
  isChanged?: boolean;
  /** Escape does nothing. */
  ignoresEscape?: boolean;
  /** Names the button with the cross. Default: "Close". */
  closeLabel?: string;
}

/**
 * Opens the element as a modal dialog: the browser traps and restores the focus. Escape asks before it discards input, and
 * does nothing while a change is in flight, which nobody can discard.
 */
function useModal({ onClose, isChanged, ignoresEscape = false }: Modal) {
  const element = useRef<HTMLDialogElement>(null);
  const focused = useRef<HTMLElement>(undefined);
  const [isEdited, setIsEdited] = useState(false);
  const [isAsking, setIsAsking] = useState(false);
  const queries = useQueryClient();
  // A passive effect would end after the element has left the page, when the browser restores no focus.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  useEffect(() => {
    if (!ignoresEscape) return undefined;
    // A repeated Escape would also close the dialogs below, and they would open again above this one.
    const ignore = (event: KeyboardEvent) => {
      if (event.key === "Escape") event.preventDefault();
    };
    document.addEventListener("keydown", ignore);
    return () => document.removeEventListener("keydown", ignore);
  }, [ignoresEscape]);
  // React passes on the events of a dialog that is inside this one.
  const isOwn = ({ target }: SyntheticEvent) =>
    target instanceof Element && target.closest("dialog") === element.current;
  const onEscape = () => {
    if (ignoresEscape || queries.isMutating() > 0) return;
    if (isChanged ?? isEdited) setIsAsking(true);
    else onClose();
  };
  return {
    dialog: {
      ref: element,
      onInput: (event: SyntheticEvent) => {
        if (isOwn(event)) setIsEdited(true);
      },
      onFocus: (event: SyntheticEvent) => {
        if (isOwn(event) && event.target instanceof HTMLElement) focused.current = event.target;
      },
      onCancel: (event: SyntheticEvent) => {
        if (event.target !== event.currentTarget || !event.cancelable) return;
        event.preventDefault();
        onEscape();
      },
      onClose: (event: SyntheticEvent) => {
        if (event.target !== event.currentTarget || element.current?.open !== false) return;
        // Chromium lets no page cancel a repeated Escape. Opening again would focus the first button.
        const { current: field } = focused;
        element.current.showModal();
        field?.focus();
        onEscape();
      },
    },
    question: isAsking ? (
      <Dialog title={texts.common.discardTitle} onClose={() => setIsAsking(false)}>
        <div className="actions end">
          <button type="button" className="b" onClick={() => setIsAsking(false)}>
            {texts.common.keepEditing}
          </button>
          <button type="button" className="b danger" onClick={onClose}>
            {texts.common.discard}
          </button>
        </div>
      </Dialog>
    ) : null,
  };
}

/** A native modal dialog; Escape closes it, and asks first when something was entered. */
export function Dialog(props: Modal & { title: string; children: ReactNode }) {
  const id = useId();
  const { dialog, question } = useModal(props);
  return (
    <dialog className="dialog" aria-labelledby={id} {...dialog}>
      <header className="row between">
        <h2 id={id}>{props.title}</h2>
        <CloseButton {...props} />
      </header>
      {props.children}
      {question}
    </dialog>
  );
}

function CloseButton({ onClose, closeLabel = texts.common.close }: Modal) {
  return (
    <button type="button" className="b plain icon small" aria-label={closeLabel} title={closeLabel} onClick={onClose}>
      <X />
    </button>
  );
}

/** A panel at the side for changing one thing. Its footer says in words what will be true. */
export function Sheet(
  props: Modal & {
    title: string;
    /** The thing that is changed. */
    subject?: ReactNode;
    /** Consequences beside the choices; they make the sheet wide. */
    outcome?: ReactNode;
    footer: ReactNode;
    children: ReactNode;
  },
) {
  const id = useId();
  const { dialog, question } = useModal(props);
  const isWide = props.outcome !== undefined;
  return (
    <dialog className={isWide ? "sheet wide" : "sheet"} aria-labelledby={id} {...dialog}>
      <header>
        <div>
          <h2 id={id}>{props.title}</h2>
          {props.subject === undefined ? null : <p className="small soft">{props.subject}</p>}
        </div>
        <CloseButton {...props} />
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
      {question}
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
  useLayoutEffect(() => {
    // An earlier dialog has shown this failure.
    if (change.isError) change.reset();
  }, []);
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
            {/* A typed confirmation is nothing to keep: Escape need not ask. */}
            <span className="in" onInput={(event) => event.stopPropagation()}>
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
