import { useId, type ReactNode } from "react";

/** A button that is closed while something is missing, with the reason beside it. Without `onClick` it submits its form. */
export function GuardedButton(props: {
  /** Says what is missing. Undefined opens the button. */
  reason: string | undefined;
  isBusy?: boolean;
  className?: string;
  onClick?: () => void;
  children: ReactNode;
}) {
  const id = useId();
  const { reason, onClick } = props;
  return (
    <>
      <button
        type={onClick === undefined ? "submit" : "button"}
        className={props.className ?? "b"}
        disabled={reason !== undefined || props.isBusy === true}
        aria-describedby={reason === undefined ? undefined : id}
        onClick={onClick}
      >
        {props.children}
      </button>
      {reason === undefined ? null : (
        <span id={id} className="hint reason" role="status">
          {reason}
        </span>
      )}
    </>
  );
}
